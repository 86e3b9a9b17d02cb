"""How long things take in virtual time, and what overtakes what."""

import dataclasses

import pytest

from octopia.broker import Detail
from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.overlay import Scot, parse_tree
from octopia.protocol import Overflow
from octopia.protocol.messages import ClientReply, CutOff, PublishRequest
from octopia.simulator.agenda import to_ns
from octopia.simulator.profiles import PAPER, UNIT
from octopia.simulator.run import Run, run_scenario
from octopia.simulator.world import Environment, World
from support import RowList, hop_text, hops_of, make_settings, offer, run_text, say, scenario_from, want

LINE = """
[overlay]
tree = "path:4"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "here"
broker = "a.0"
subscribe = ["x > 0"]
[[client]]
name = "far"
broker = "d.0"
subscribe = ["x > 0"]
[[client]]
name = "across"
broker = "d.1"
subscribe = ["x > 0"]
"""

PUBLISH = '[[event]]\nclient = "P"\npublish = { x = 1 }\n'


def delays(run: Run) -> dict[str, float]:
    return {each.client: each.delay_ms for each in run.recorder.deliveries}


def series(run: Run, client: str) -> list[tuple[int, float]]:
    return [(each.publication, each.delay_ms) for each in run.recorder.deliveries if each.client == client]


class TestUnitProfile:
    def test_each_client_link_and_each_hop_takes_1_ms(self):
        assert delays(run_text(LINE + PUBLISH)) == {"here": 2.0, "far": 5.0, "across": 6.0}

    def test_a_link_may_take_longer_in_one_direction(self):
        shaped = LINE + '[[link]]\nfrom = "b.0"\nto = "c.0"\ndelay_ms = 2.5\n'
        assert delays(run_text(shaped + PUBLISH))["far"] == 6.5
        other_way = LINE + '[[link]]\nfrom = "c.0"\nto = "b.0"\ndelay_ms = 2.5\n'
        assert delays(run_text(other_way + PUBLISH))["far"] == 5.0

    def test_any_number_of_publications_passes_at_once(self):
        run = run_text(LINE + PUBLISH + "count = 200\n")
        assert {delay for _, delay in series(run, "far")} == {5.0}
        assert [number for number, _ in series(run, "far")] == list(range(200))


class TestSpreading:
    """Deliveries pass mailboxes only where a client of the same broker is slow."""

    AT = ("a.0", "d.0", "d.1")
    SLOW = "".join(f'[[client]]\nname = "slow-{at}"\nbroker = "{at}"\n' for at in AT)
    SLOWED = "".join(f'[[event]]\nclient = "slow-{at}"\nslow = 1\n' for at in AT)

    def test_others_get_the_same_at_the_same_time_beside_a_slow_client(self):
        news = PUBLISH + "count = 50\n" + PUBLISH + "at_ms = 3\ncount = 7\n"
        alone, beside = run_text(LINE + news), run_text(LINE + self.SLOW + self.SLOWED + news)
        for client in ("here", "far", "across"):
            assert len(series(alone, client)) == 57
            assert series(beside, client) == series(alone, client)


class TestRate:
    LIMITED = LINE + '[[link]]\nfrom = "a.0"\nto = "a.1"\nrate = 100\n'

    def test_a_publication_occupies_a_link_and_the_next_ones_wait(self):
        run = run_text(self.LIMITED + PUBLISH + "count = 4\n", detail=Detail.HOPS)
        assert [delay for _, delay in series(run, "across")] == [16.0, 26.0, 36.0, 46.0]
        assert {delay for _, delay in series(run, "far")} == {5.0}

    def test_a_rate_of_the_overlay_counts_as_well(self):
        overlay = LINE.replace("clusters = 2", 'clusters = 2\n[[overlay.link]]\nfrom = "a.0"\nto = "a.1"\nrate = 100')
        assert delays(run_text(overlay + PUBLISH))["across"] == 16.0

    def test_the_queue_grows_until_eq_3_says_congested_and_dynamic_routing_goes_around(self):
        burst = PUBLISH + "count = 60\nevery_ms = 1\n"
        run = run_text(self.LIMITED + burst)
        rerouted = [number for number in range(60) if "a.0>b.0[10]" in hops_of(run, number)]
        assert 0 < rerouted[0] <= 25
        assert len(rerouted) > 20
        assert run.complaints() == []
        static = run_text(self.LIMITED + burst + '[routing]\nalgorithm = "static"\n')
        assert not any("[" in hop_text(hop) for hop in static.recorder.hops)
        assert max(delay for _, delay in series(static, "across")) > max(delay for _, delay in series(run, "across"))

    def test_a_high_threshold_keeps_everything_on_its_way(self):
        run = run_text(self.LIMITED + PUBLISH + "count = 60\nevery_ms = 1\n" + "[routing]\ntau = 100000.0\n")
        assert not any("[" in hop_text(hop) for hop in run.recorder.hops)

    def test_control_overtakes_data(self):
        text = LINE + '[[link]]\nfrom = "a.0"\nto = "b.0"\nrate = 10\n'
        text += '[[event]]\nat_ms = 0\nclient = "P"\npublish = { x = 1 }\ncount = 5\n'
        text += '[[event]]\nat_ms = 20\nclient = "here"\nsubscribe = "x > 7"\n'
        run = run_text(text)
        kinds = [hop.kind for hop in run.recorder.hops if (hop.sender, hop.receiver) == ("a.0", "b.0")]
        assert kinds[-6:] == ["publication", "subscription", *["publication"] * 4]


class TestPaperProfile:
    ALONE = """
[overlay]
tree = "a"
clusters = 1
[[client]]
name = "C"
broker = "a.0"
advertise = ["x > 0"]
subscribe = ["x > 0"]
"""
    EVENT = '[[event]]\nclient = "C"\npublish = { x = 1 }\n'

    def test_brokers_links_and_clients_take_time(self):
        run = run_text(self.ALONE + self.EVENT, profile=PAPER)
        service_us = PAPER.message_us + PAPER.match_us + PAPER.match_per_subscription_us * 1 + PAPER.select_us
        on_the_wire_us = 50 * 8 / PAPER.bandwidth_mbit_s
        expected_ms = 2 * PAPER.client_delay_ms + (service_us + on_the_wire_us) / 1000
        assert delays(run)["C"] == pytest.approx(expected_ms, abs=1e-5)

    def test_one_broker_is_one_server(self):
        run = run_text(self.ALONE + self.EVENT + "count = 3\n", profile=PAPER)
        first, second, third = (delay for _, delay in series(run, "C"))
        assert second - first == pytest.approx(0.0851, abs=1e-5)
        assert third - second == pytest.approx(0.0851, abs=1e-5)

    def test_a_larger_table_takes_longer(self):
        more = "".join(f'[[client]]\nname = "C{n}"\nbroker = "a.0"\nsubscribe = ["x > 99"]\n' for n in range(10))
        small, large = (run_text(text + self.EVENT, profile=PAPER) for text in (self.ALONE, self.ALONE + more))
        gained_us = (delays(large)["C"] - delays(small)["C"]) * 1000
        assert gained_us == pytest.approx(10 * PAPER.match_per_subscription_us, abs=0.01)

    def test_the_scenario_may_ask_for_it_and_the_run_reports_what_it_assumed(self):
        run = run_text('[simulator]\nprofile = "paper"\n' + self.ALONE + self.EVENT)
        assumed = run.profile.assumptions()
        assert assumed["name"] == "paper"
        assert "assumed" in assumed["description"]
        assert (assumed["machines"], assumed["message_us"]) == (7, 60.0)
        assert {"jitter_ms", "send_us"} <= set(assumed)

    def test_brokers_on_one_machine_are_closer(self):
        one = dataclasses.replace(UNIT, same_machine_delay_ms=0.25, machines=1)
        assert delays(run_text(LINE + PUBLISH, profile=one))["far"] == 2.75


def test_bandwidth_counts_bytes():
    slow = dataclasses.replace(UNIT, bandwidth_mbit_s=0.08)  # ten bytes a millisecond
    run = run_text(LINE + PUBLISH, profile=slow)
    _, publication = run.ledger.publication(0)
    assert PublishRequest(0, publication, 0.0).size_bytes == 50
    assert delays(run)["here"] == pytest.approx(1 + 5 + 1)
    assert delays(run)["far"] == pytest.approx(5 + 4 * 5)


def test_sending_occupies_links_between_brokers_only():
    slow = dataclasses.replace(UNIT, send_us=5000.0)
    run = run_text(LINE + PUBLISH + "count = 3\n", profile=slow)
    assert [delay for _, delay in series(run, "here")] == [2.0, 2.0, 2.0]
    assert [delay for _, delay in series(run, "far")] == [5 + 3 * 5.0 + wait for wait in (0.0, 5.0, 10.0)]


def test_the_rate_of_a_link_replaces_what_sending_takes():
    slow = dataclasses.replace(UNIT, send_us=5000.0)
    fast = LINE + '[[link]]\nbetween = ["b.0", "c.0"]\nrate = 1000\n'
    assert delays(run_text(fast + PUBLISH, profile=slow))["far"] == 5 + 2 * 5.0 + 1.0


class TestSearch:
    """The time that TID-dynamic takes to search its table, which holds up what comes next at that broker."""

    TEXT = LINE + '[routing]\nalgorithm = "{}"\n[[link]]\nbetween = ["a.0", "b.0"]\ncongested = {}\n'
    SEARCHING = dataclasses.replace(UNIT, search_per_entry_us=1000.0)

    def arrivals(self, algorithm: str, congested: str) -> list[float]:
        text = self.TEXT.format(algorithm, congested) + PUBLISH + "count = 2\n"
        return [delay for _, delay in series(run_text(text, profile=self.SEARCHING), "here")]

    def test_a_search_takes_time_for_every_entry(self):
        # Three subscriptions are bound to one tree, and all of them are known to the publisher's host broker.
        assert self.arrivals("tid-dynamic", "true") == [2.0, 2.0 + 3 * 1.0]

    @pytest.mark.parametrize(
        ("algorithm", "congested"), [("tid-dynamic", "false"), ("tid-static", "true"), ("dynamic", "true")]
    )
    def test_nobody_else_searches(self, algorithm, congested):
        assert self.arrivals(algorithm, congested) == [2.0, 2.0]


class TestJitter:
    SHAKY = dataclasses.replace(UNIT, jitter_ms=7.0)
    TEXT = LINE + '[routing]\nalgorithm = "static"\n' + PUBLISH + "count = 50\nevery_ms = 0.5\n"

    def test_it_varies_delays_but_no_link_reorders(self):
        run = run_text(self.TEXT, profile=self.SHAKY, seed=3)
        for client in ("here", "far", "across"):
            numbers = [number for number, _ in series(run, client)]
            assert numbers == list(range(50))
        assert len({delay for _, delay in series(run, "far")}) > 10
        assert {delay for _, delay in series(run, "here")} == {2.0}  # Clients are reached without it.
        assert run.complaints() == []

    def test_control_messages_keep_their_order_too(self):
        """A subscription overtaken by its own withdrawal would stay in the tables for ever."""
        events = "".join(
            f'[[event]]\nclient = "here"\n{text}\nat_ms = {number + shift}\n'
            for number in range(20)
            for text, shift in ((f'subscribe = "x > 1"\nid = "s{number}"', 0.0), (f'unsubscribe = "s{number}"', 0.1))
        )
        run = run_text(LINE + events, profile=self.SHAKY, seed=3)
        assert run.messages()["unsubscription"] == 20 * 3
        assert {each["prt"] for name, each in run.to_json()["tables"].items() if name.endswith(".0")} == {2}

    def test_one_seed_gives_one_run_and_another_seed_another(self):
        results = [run_text(self.TEXT, profile=self.SHAKY, seed=seed).to_json() for seed in (1, 1, 2)]
        assert results[0] == results[1]
        assert results[0] != results[2]


class _Replies:
    def __init__(self) -> None:
        self.heard: list[tuple[str, ClientReply]] = []

    def on_fact(self, *_: object) -> None:
        pass

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        self.heard.append((client, reply))

    def on_delivered(self, *_: object) -> None:
        pass


def small_world(replies: _Replies, limit: int = 10_000) -> World:
    slow_clients = dataclasses.replace(UNIT, bandwidth_mbit_s=0.001)
    environment = Environment(slow_clients, client_queue_limit=limit)
    return World(Scot(parse_tree("a"), 1), make_settings(), environment, observers=[replies])


def test_a_client_name_is_used_once():
    world = small_world(_Replies())
    world.attach("C", BrokerId("a", 0))
    with pytest.raises(UsageError, match='"C"'):
        world.attach("C", BrokerId("a", 0))


def test_a_slow_client_is_cut_off_told_so_and_detached():
    replies = _Replies()
    world = small_world(replies, limit=2)
    publisher, slow = world.attach("P", BrokerId("a", 0)), world.attach("S", BrokerId("a", 0), Overflow.DISCONNECT)
    world.request(publisher, offer(0, "x > 0"))
    world.request(slow, want(0, "x > 0"))
    for number in range(6):
        world.request(publisher, say(number, x=1))
    world.run()
    assert ("S", CutOff(3)) in replies.heard
    assert world.brokers[BrokerId("a", 0)].table_sizes()["prt"] == 0
    world.brokers[BrokerId("a", 0)].check()
    world.attach("S", BrokerId("a", 0))


def test_a_client_may_leave_while_a_delivery_occupies_its_link():
    replies = _Replies()
    world = small_world(replies)
    client = world.attach("C", BrokerId("a", 0))
    for request in (offer(0, "x > 0"), want(0, "x > 0"), say(0, x=1)):
        world.request(client, request)
    world.at(to_ns(2.0), world.detach, client)
    world.run()
    assert world.brokers[BrokerId("a", 0)].table_sizes() == {"clt": 0, "prt": 0, "srt": 0}


def test_what_a_client_asked_just_before_it_left_is_not_heard():
    world = small_world(_Replies())
    client = world.attach("C", BrokerId("a", 0))
    world.request(client, want(0, "x > 0"))
    world.detach(client)
    world.run()
    assert world.brokers[BrokerId("a", 0)].table_sizes()["prt"] == 0
    assert world.civs(client, 0) is None


def test_a_run_is_over_when_nothing_is_left_to_happen():
    rows = RowList()
    run = run_scenario(scenario_from(LINE + PUBLISH), sinks=[rows])
    assert len(run.world.agenda) == 0
    assert rows.rows[-1].event == "deliver"
