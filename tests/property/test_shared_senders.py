"""Shared senders, by the trace of random runs: they are fair, never idle while something waits, and send one at a time.

The trace has the time at which a copy entered an output queue, and the time at which its sender began to send it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octopia.broker import Detail
from octopia.content import parse_filter
from octopia.overlay.files import overlay_from_text
from octopia.scenario import AdvertiseItem, ClientSpec, Event, PublishItem, Scenario, SubscribeItem
from octopia.settings import PAPER_ROUTING, Algorithm
from octopia.simulator.agenda import NS_PER_MS
from octopia.simulator.profiles import UNIT, Profile, SenderScope
from octopia.simulator.run import Run, run_scenario
from octopia.trace import Row
from support import RowList, pub

COST_NS = 2 * NS_PER_MS
TREES = ("a-b", "path:3", "a-b, a-c, a-d")
Link = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """A copy that waited in the queue of a link from one time to another."""

    link: Link
    entered_ns: int
    begun_ns: int


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a small overlay with a publisher, subscribers anywhere, and bursts of publications."""
    overlay = overlay_from_text(draw(st.sampled_from(TREES)), draw(st.integers(1, 3)))
    brokers = list(overlay.scot.brokers)
    publishers = draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3))
    subscribers = draw(st.lists(st.tuples(st.sampled_from(brokers), st.integers(0, 2)), min_size=1, max_size=8))
    clients = [
        ClientSpec(f"P{number}", broker, (AdvertiseItem(f"P{number}", f"a{number}", "x > 0", parse_filter("x > 0")),))
        for number, broker in enumerate(publishers)
    ]
    for number, (broker, least) in enumerate(subscribers):
        text = f"x > {least}"
        item = SubscribeItem(f"S{number}", f"s{number}", text, parse_filter(text))
        clients.append(ClientSpec(f"S{number}", broker, (item,)))
    published = st.tuples(st.integers(0, len(publishers) - 1), st.integers(1, 3), st.integers(0, 30))
    events = [
        Event(PublishItem(f"P{publisher}", pub(x=x)), at_ms=float(at_ms))
        for publisher, x, at_ms in sorted(draw(st.lists(published, min_size=1, max_size=25)), key=lambda each: each[2])
    ]
    algorithm = draw(st.sampled_from(list(Algorithm)))
    routing = dataclasses.replace(PAPER_ROUTING, algorithm=algorithm)
    return Scenario("drawn", overlay, routing, tuple(clients), links=(), events=tuple(events))


profiles = st.builds(
    lambda scope, machines, credit: dataclasses.replace(
        UNIT, send_us=COST_NS / 1000, sender=scope, machines=machines, credit_kib=credit
    ),
    st.sampled_from([SenderScope.BROKER, SenderScope.MACHINE]),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.1]),
)


def played(scenario: Scenario, profile: Profile) -> tuple[Run, list[Wait]]:
    """Return a run and the copies between brokers that waited, in the order in which they were sent."""
    rows = RowList()
    run = run_scenario(scenario, profile=profile, detail=Detail.ALL, sinks=[rows], check=True)
    return run, waits(rows.rows)


def waits(rows: list[Row]) -> list[Wait]:
    entered: dict[Link, deque[int]] = {}
    found = []
    for row in rows:
        if row.kind != "publication" or row.link == "client" or row.event not in ("enqueue", "send"):
            continue
        assert row.broker is not None
        assert row.peer is not None
        link, time_ns = (row.broker, row.peer), round(row.time_ms * NS_PER_MS)
        if row.event == "enqueue":
            entered.setdefault(link, deque()).append(time_ns)
        else:
            found.append(Wait(link, entered[link].popleft(), time_ns))
    assert not any(entered.values()), "everything is sent in the end"
    return found


def by_sender(run: Run, found: list[Wait]) -> list[list[Wait]]:
    """Return the copies of each sender."""
    brokers = [str(each) for each in run.world.scot.brokers]
    per_broker = run.profile.sender is SenderScope.BROKER
    sender = {each: number if per_broker else number % run.profile.machines for number, each in enumerate(brokers)}
    groups: dict[int, list[Wait]] = {}
    for wait in found:
        groups.setdefault(sender[wait.link[0]], []).append(wait)
    return list(groups.values())


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(), profiles)
def test_a_shared_sender_is_fair_and_busy_and_sends_one_copy_at_a_time(scenario: Scenario, profile: Profile) -> None:
    run, found = played(scenario, profile)
    assert run.complaints() == []
    assert run.losses() == {}
    for copies in by_sender(run, found):
        assert_one_at_a_time(copies)
        assert_never_idle(copies)
        assert_fair(copies)


def assert_one_at_a_time(copies: list[Wait]) -> None:
    for one, other in itertools.pairwise(copies):
        assert other.begun_ns - one.begun_ns >= COST_NS


def assert_never_idle(copies: list[Wait]) -> None:
    """A copy begins when the one before is done, or when the first of all that wait has entered its queue."""
    free_ns = 0
    for index, copy in enumerate(copies):
        assert copy.begun_ns == max(free_ns, min(each.entered_ns for each in copies[index:]))
        free_ns = copy.begun_ns + COST_NS


def assert_fair(copies: list[Wait]) -> None:
    """While a link waits, every other link is served at most once."""
    last: dict[Link, int] = {}
    for index, copy in enumerate(copies):
        since_ns = max(copy.entered_ns, last.get(copy.link, 0))
        meanwhile = [each.link for each in copies[:index] if each.begun_ns > since_ns]
        assert len(meanwhile) == len(set(meanwhile)), f"{copy.link} was passed over twice"
        last[copy.link] = copy.begun_ns


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_a_link_alone_is_served_as_by_its_own_sender(scenario: Scenario) -> None:
    """With one link per broker, it does not matter who owns the sender."""
    overlay = overlay_from_text("a-b", 1)
    at_ends = dict(zip(scenario.overlay.scot.brokers, (*overlay.scot.brokers,) * 99, strict=False))
    clients = tuple(dataclasses.replace(each, broker=at_ends[each.broker]) for each in scenario.clients)
    small = dataclasses.replace(scenario, overlay=overlay, clients=clients)
    own = dataclasses.replace(UNIT, send_us=COST_NS / 1000)
    shared = dataclasses.replace(own, sender=SenderScope.BROKER)
    assert played(small, own)[0].to_json() == played(small, shared)[0].to_json()
