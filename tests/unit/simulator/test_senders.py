"""Senders that a broker's links or a machine's brokers share."""

import dataclasses

import pytest

from octopia.simulator.profiles import UNIT, Profile, SenderScope, find_profile, write_profile
from support import RowList, run_text

STAR = """
[overlay]
tree = "a-b, a-c, a-d"
clusters = 1
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "B"
broker = "b.0"
subscribe = ["x > 0"]
[[client]]
name = "C"
broker = "c.0"
subscribe = ["x > 0"]
[[client]]
name = "D"
broker = "d.0"
subscribe = ["x > 10"]
"""

LINKS = ("ideal", "session")
PER_BROKER = dataclasses.replace(UNIT, send_us=5000.0, sender=SenderScope.BROKER)
PER_MACHINE = dataclasses.replace(UNIT, send_us=5000.0, sender=SenderScope.MACHINE, machines=1)


def publish(at_ms: float, x: int, count: int = 1) -> str:
    return f'[[event]]\nat_ms = {at_ms}\nclient = "P"\npublish = {{ x = {x} }}\ncount = {count}\n'


def play(profile: Profile, links: str, *parts: str) -> dict[str, list[float]]:
    """Return the times at which copies reached the brokers of clients, counted from the first one at a.0."""
    rows = RowList()
    run = run_text("".join([STAR, f'[simulator]\nlinks = "{links}"\n', *parts]), profile=profile, sinks=[rows])
    assert run.complaints() == []
    deliveries = [row for row in rows.rows if row.event == "deliver"]
    start_ms = min(row.published_ms for row in deliveries) + 1
    found: dict[str, list[float]] = {}
    for row in deliveries:
        found.setdefault(row.client, []).append(row.time_ms - 1 - start_ms)
    return found


@pytest.mark.parametrize("links", LINKS)
class TestBroker:
    def test_its_links_take_turns(self, links):
        assert play(PER_BROKER, links, publish(0, 1, count=3)) == {"B": [6, 16, 26], "C": [11, 21, 31]}

    def test_a_link_that_begins_to_wait_precedes_the_one_that_was_served_last(self, links):
        times = play(PER_BROKER, links, publish(0, 1, count=2), publish(3, 11))
        assert times == {"B": [6, 21, 31], "C": [11, 26, 36], "D": [16]}

    def test_a_slow_link_is_slow_and_holds_up_no_other(self, links):
        slow = '[[link]]\nfrom = "a.0"\nto = "b.0"\nrate = 50\n'
        assert play(PER_BROKER, links, slow, publish(0, 1, count=3)) == {"B": [21, 41, 61], "C": [11, 16, 21]}

    def test_a_fast_link_sends_no_faster_than_its_sender(self, links):
        fast = '[[link]]\nfrom = "a.0"\nto = "b.0"\nrate = 1000\n'
        assert play(PER_BROKER, links, fast, publish(0, 1, count=2)) == {"B": [6, 16], "C": [11, 21]}

    def test_control_messages_do_not_wait_for_it(self, links):
        more = '[[event]]\nat_ms = 3\nclient = "P"\nsubscribe = "y > 0"\n'
        text = STAR + publish(0, 1, count=5) + more + f'[simulator]\nlinks = "{links}"\n'
        run = run_text(text, profile=PER_BROKER)
        kinds = [hop.kind for hop in run.recorder.hops if (hop.sender, hop.receiver) == ("a.0", "b.0")]
        assert kinds[-6:] == ["publication", "subscription", *["publication"] * 4]


CHAIN = """
[overlay]
tree = "a-b, b-c"
clusters = 1
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "C"
broker = "c.0"
subscribe = ["x > 0"]
"""


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize(("profile", "last_ms"), [(PER_BROKER, 19.0), (PER_MACHINE, 23.0)], ids=["broker", "machine"])
def test_brokers_of_one_machine_take_turns(links, profile, last_ms):
    run = run_text(f'{CHAIN}[simulator]\nlinks = "{links}"\n' + publish(0, 1, count=2), profile=profile)
    *_, last = (each.delay_ms for each in run.recorder.deliveries)
    # a.0 and b.0 send two copies each: four in a row on one machine, otherwise b.0 begins when the first arrives.
    assert last == last_ms


def test_a_profile_file_names_the_sender(tmp_path):
    path = write_profile(dataclasses.replace(PER_MACHINE, name="mine"), tmp_path)
    assert 'sender = "machine"' in path.read_text()
    assert find_profile(str(path)).sender is SenderScope.MACHINE


def test_the_sender_of_each_link_is_no_assumption_to_report():
    assert "sender" not in find_profile("paper").assumptions()
    assert find_profile("paper-broker-sender").assumptions()["sender"] == "broker"


def test_all_models_of_the_paper_differ_in_what_they_say():
    paper = find_profile("paper").assumptions()

    def differs(name: str) -> set[str]:
        other = find_profile(name).assumptions()
        return {key for key in paper.keys() | other.keys() if paper.get(key) != other.get(key)}

    assert differs("paper-broker-sender") == {"name", "description", "sender", "send_us"}
    assert differs("paper-machine-sender") == {"name", "description", "sender", "send_us"}


def test_senders_of_machines_and_of_brokers_send_as_much_on_the_overlay_of_the_paper():
    brokers, broker, machine = 56, find_profile("paper-broker-sender"), find_profile("paper-machine-sender")
    assert machine.machines / machine.send_us == brokers / broker.send_us
