"""Adaptive routing while brokers are dead or recovering: what subscribers get, and what they are told."""

from __future__ import annotations

import pytest

from octopia.ids import BrokerId
from octopia.protocol import Cause
from octopia.protocol.messages import ClientReply, Confirmed
from octopia.simulator.run import Run
from support import run_text

CRASH_MS, SUBSCRIBE_MS, PUBLISH_MS, RESTART_MS, LATER_MS = 1_000, 5_000, 10_000, 20_000, 40_000


class Confirmations:
    """An observer that records the times at which clients get confirmations."""

    def __init__(self) -> None:
        self.at_ms: dict[str, list[float]] = {}

    def on_fact(self, broker: object, fact: object, now_ms: float) -> None:
        pass

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        if isinstance(reply, Confirmed):
            self.at_ms.setdefault(client, []).append(now_ms)


def play(tree: str, clusters: int, clients: dict[str, str], *events: str, observer: Confirmations | None = None) -> Run:
    """Run a scenario; a client is at a broker, and advertises if its name begins with P."""
    lines = [f'[overlay]\ntree = "{tree}"\nclusters = {clusters}\n[routing]\nalgorithm = "adaptive"\n']
    for name, broker in clients.items():
        offer = 'advertise = ["x > 0"]\n' if name.startswith("P") else ""
        lines.append(f'[[client]]\nname = "{name}"\nbroker = "{broker}"\n{offer}')
    text = "".join([*lines, *(f"[[event]]\n{event}\n" for event in events)])
    return run_text(text, observers=[observer or Confirmations()])


def publish(client: str, at_ms: float) -> str:
    return f'client = "{client}"\npublish = {{ x = 1 }}\nat_ms = {at_ms}'


def subscribe(client: str, at_ms: float) -> str:
    return f'client = "{client}"\nsubscribe = "x > 0"\nat_ms = {at_ms}'


def got(run: Run, client: str) -> list[int]:
    """Return the numbers of the publications that a client got, in the order in which they were made."""
    return sorted(each.publication for each in run.recorder.deliveries if each.client == client)


def causes(run: Run, client: str) -> list[Cause]:
    """Return the causes of the gaps that a client was told of."""
    return [each.cause for each in run.recorder.gaps if each.client == client]


# A secondary broker that restarts, cannot reach the host broker, and passes the grace period.


def cut_off_secondary(*, heals_ms: int) -> Run:
    """Let a.1 restart while its iLink to the host broker a.0 is cut, and b.1 get a subscription 10 s later.

    The last incarnation of a.1 has answered that cluster 1 wants nothing, and a.0 still goes by that.
    """
    return play(
        "a-b",
        2,
        {"P": "a.0", "S": "b.1"},
        'cut = ["a.0", "a.1"]\nat_ms = 1000',
        'crash = "a.1"\nat_ms = 5000',
        'restart = "a.1"\nat_ms = 6000',
        subscribe("S", 16_000),
        publish("P", 20_000),
        f'heal = ["a.0", "a.1"]\nat_ms = {heals_ms}',
        publish("P", 50_000),
    )


def test_publications_that_pass_by_a_confirmed_subscription_are_told():
    run = cut_off_secondary(heals_ms=21_000)
    assert got(run, "S") == [1]
    assert causes(run, "S") == [Cause.GRACE]
    assert run.complaints() == []


def test_nothing_is_told_if_the_host_broker_is_reached_within_the_grace_period():
    run = cut_off_secondary(heals_ms=7_000)
    assert got(run, "S") == [0, 1]
    assert causes(run, "S") == []


# A broker that restarts and is not ready for publications: it waits for the digest of c.0 until its grace ends at 10 s.


def publish_while_recovering(subscriber: str) -> Run:
    return play(
        "a-b, b-c",
        2,
        {"P": "a.0", "S": subscriber},
        subscribe("S", 500),
        'crash = "b.0"\nat_ms = 1000',
        'cut = ["b.0", "c.0"]\nat_ms = 2000',
        'restart = "b.0"\nat_ms = 5000',
        *(publish("P", 6_000 + 10 * each) for each in range(20)),
        'heal = ["b.0", "c.0"]\nat_ms = 20000',
    )


def test_publications_go_around_a_broker_that_recovers():
    run = publish_while_recovering("c.0")
    assert got(run, "S") == list(range(20))
    assert max(each.delay_ms for each in run.recorder.deliveries) < 100
    assert all("b.0" not in each.path for each in run.recorder.deliveries)
    assert run.complaints() == []


def test_publications_for_clients_of_a_broker_that_recovers_wait_for_it():
    """The crash has ended the session of S, and a new one subscribes as soon as the broker is back."""
    run = publish_while_recovering("b.0")
    assert got(run, "S") == list(range(20))
    assert min(each.delay_ms for each in run.recorder.deliveries) > 3_000
    assert run.complaints() == []


# Copies for the clients of a broker that cannot be reached: they wait at other brokers of its region, and expire there.


def lose_region_of(*events: str) -> Run:
    """Publish from outside the region b for S at c.0 and T at b.0; b.1 cannot know whether b.0 has clients."""
    return play(
        "a-b, b-c",
        2,
        {"P": "a.0", "S": "c.0", "T": "b.0"},
        subscribe("S", 500),
        subscribe("T", 500),
        *(publish("P", 10_000 + 100 * each) for each in range(20)),
        *events,
    )


def test_copies_for_clients_of_a_dead_broker_alarm_nobody_else():
    run = lose_region_of('crash = "b.0"\nat_ms = 1000', 'restart = "b.0"\nat_ms = 90000')
    assert got(run, "S") == list(range(20))
    assert run.losses() == {"unreachable_broker": 20}
    counts = {each.cause: each.count for each in run.recorder.gaps if each.client == "S"}
    assert counts == {Cause.LINK_DOWN: 0, Cause.RESTART: 0}, "no more than about any broker that was dead for so long"
    assert run.complaints() == []


def test_clients_of_a_broker_that_lived_on_are_told():
    """No link leads to b.0 but that from c.0, and copies do not turn back to it."""
    cuts = [f'cut = ["b.0", "{each}"]\nat_ms = 1000' for each in ("a.0", "b.1")]
    heals = [f'heal = ["b.0", "{each}"]\nat_ms = 90000' for each in ("a.0", "b.1")]
    run = lose_region_of(*cuts, *heals)
    assert got(run, "T") == []
    told = [each.count for each in run.recorder.gaps if (each.client, each.cause) == ("T", Cause.UNREACHABLE_BROKER)]
    assert told == [20]
    assert Cause.UNREACHABLE_BROKER not in causes(run, "S")
    assert got(run, "S") == list(range(20))
    assert run.complaints() == []


# A subscription that is issued while a broker of its cluster is dead.

PUBLISHERS = {"P1": "a.1", "P2": "c.0", "P3": "c.1", "P4": "b.1"}


def subscribe_around_a_dead_broker(observer: Confirmations, *events: str) -> Run:
    """Let a.0 get a subscription while b.0 is dead; all publish before and after b.0 returns."""
    first = [publish(each, PUBLISH_MS) for each in PUBLISHERS]
    later = [publish(each, LATER_MS) for each in PUBLISHERS]
    return play(
        "a-b, b-c",
        2,
        {"S": "a.0", **PUBLISHERS},
        f'crash = "b.0"\nat_ms = {CRASH_MS}',
        subscribe("S", SUBSCRIBE_MS),
        *events,
        *first,
        f'restart = "b.0"\nat_ms = {RESTART_MS}',
        *later,
        observer=observer,
    )


def test_it_is_confirmed_when_the_broker_is_back():
    observer = Confirmations()
    run = subscribe_around_a_dead_broker(observer)
    [confirmed_ms] = observer.at_ms["S"]
    assert RESTART_MS < confirmed_ms < LATER_MS
    assert run.complaints() == []


def test_until_then_it_gets_what_is_published_on_its_side_of_the_dead_broker():
    run = subscribe_around_a_dead_broker(Confirmations())
    assert got(run, "S") == [0, 4, 5, 6, 7], "P1 at first, and everybody in the end"
    assert causes(run, "S") == [Cause.RESTART]


@pytest.mark.parametrize("publisher", ["b.1", "a.1"])
def test_until_then_it_gets_what_is_advertised_in_the_region_of_the_dead_broker_since(publisher: str):
    """Nobody has answered this advertisement for cluster 0, so its publications go everywhere."""
    observer = Confirmations()
    run = play(
        "a-b, b-c",
        2,
        {"S": "a.0", "N": publisher},
        f'crash = "b.0"\nat_ms = {CRASH_MS}',
        subscribe("S", SUBSCRIBE_MS),
        f'client = "N"\nadvertise = "x > 0"\nat_ms = {SUBSCRIBE_MS + 1000}',
        publish("N", PUBLISH_MS),
        f'restart = "b.0"\nat_ms = {RESTART_MS}',
        observer=observer,
    )
    assert got(run, "S") == [0]
    [confirmed_ms] = observer.at_ms["N"]
    assert confirmed_ms > RESTART_MS if publisher == "b.1" else confirmed_ms < PUBLISH_MS
