"""Random scenarios against an oracle that shares no code with routing (the guarantees of static and dynamic routing).

Every publication is delivered exactly once to each client that wants it and to no other, under any congestion, and its
copies keep to the allowed paths. A failure prints the command that replays it.
"""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import replay_scenario
from delivery_oracle import SECOND_OPINION, Outcome, play
from random_scenarios import Family, RandomScenario, draw_scenario, family_of

from octopia.broker import Case, Decision, Forward, Verdict, publishing, subscribing
from octopia.broker.common import CommonState
from octopia.broker.dynamic_routing import route_dynamically
from octopia.broker.state import State
from octopia.broker.static_routing import RoutingView, Wanted
from octopia.broker.tables import Clt, CltEntry
from octopia.content import And, Disjunction, Expression, Not, Or, Publication
from octopia.ids import BrokerId, ClientId
from octopia.matching import index
from octopia.protocol import ClusterIndexVector
from octopia.protocol.messages import CivNone, CivSet, CivUnset, Message
from octopia.scenario import AdvertiseItem, Event, Item, LinkChange, LinkModel, PublishItem, SubscribeItem
from octopia.settings import Algorithm
from octopia.simulator.links import FaultyLinks
from octopia.simulator.run import Run, run_scenario

ROOT = Path(__file__).parents[2]

ORDINARY = range(600)
SOAK = range(600, 100_600)


def chunks(seeds: range, size: int) -> list[object]:
    """Split seeds into parameters of a test."""
    starts = range(seeds.start, seeds.stop, size)
    return [pytest.param(range(start, start + size), id=f"{start}-{start + size - 1}") for start in starts]


def expect_no_complaints(seed: int, *, check: bool = False) -> Outcome:
    """Run a seed; if anything is wrong, fail with the command that replays it."""
    command = f"replay with: {replay_scenario.replay_command(seed, check=check)}"
    try:
        outcome = play(draw_scenario(seed), check=check)
    except Exception as error:
        raise AssertionError(f"seed {seed} raised {error!r}\n{command}") from error
    if outcome.complaints:
        some = "\n".join(outcome.complaints[:20])
        pytest.fail(f"seed {seed}, {len(outcome.complaints)} complaints\n{some}\n{command}", pytrace=False)
    return outcome


@pytest.mark.parametrize("seeds", chunks(ORDINARY, 25))
def test_everybody_gets_what_they_want_exactly_once(seeds: range) -> None:
    for seed in seeds:
        expect_no_complaints(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seeds", chunks(SOAK, 200))
def test_everybody_gets_what_they_want_in_very_many_scenarios(seeds: range, capsys: pytest.CaptureFixture[str]) -> None:
    publications = sum(expect_no_complaints(seed).publications for seed in seeds)
    # With several workers this is not shown; pytest's own progress must do.
    with capsys.disabled():
        print(f" seeds {seeds.start} to {seeds.stop - 1} of {SOAK.stop - 1}: {publications} publications, all right")


@pytest.mark.parametrize("seeds", chunks(range(50), 10))
def test_invariants_hold_after_every_step(seeds: range) -> None:
    for seed in seeds:
        expect_no_complaints(seed, check=True)


def test_every_case_is_taken_where_congestion_emerges() -> None:
    """No verdict is forced in these scenarios: rates and bursts alone cause all three cases of Alg. 4."""
    cases: Counter[Case] = Counter()
    for seed in (each for each in ORDINARY if family_of(each) is Family.EMERGENT):
        drawn = draw_scenario(seed)
        items = [*drawn.scenario.links, *(each.item for phase in drawn.phases for each in phase)]
        changes = [item for item in items if isinstance(item, LinkChange)]
        assert all(change.verdict is None and change.queue_length is None for change in changes)
        cases += expect_no_complaints(seed).cases
        if min(cases[case] for case in Case) >= 100:
            return
    pytest.fail(f"congestion emerged too rarely: {dict(cases)}")


def test_a_seed_always_tells_the_same_story() -> None:
    for seed in range(6):
        one, other = (play(draw_scenario(seed)).run.to_json() for _ in range(2))
        assert msgspec.json.encode(one) == msgspec.json.encode(other)


# Links with sessions.


def on_links(drawn: RandomScenario, links: LinkModel) -> Run:
    """Run a scenario over links of one kind, without Eq. 3, which reads queues that sessions may delay."""
    scenario = drawn.scenario
    scot = scenario.overlay.scot
    directions = tuple(
        direction for low, high in (*scot.alinks, *scot.ilinks) for direction in ((low, high), (high, low))
    )
    free = LinkChange(directions, Verdict.FREE, queue_length=0)
    # Phases follow each other without the usual long silence, in which links would only exchange heartbeats.
    events = tuple(
        event
        for phase in drawn.phases
        for event in (
            *(Event(_decided(each.item), after_ms=each.offset_ms) for each in phase),
            Event(LinkChange(directions=())),
        )
    )
    simulator = dataclasses.replace(scenario.simulator, links=links)
    changes = (free, *map(_decided, scenario.links))
    return run_scenario(dataclasses.replace(scenario, links=changes, events=events, simulator=simulator))


def _decided(item: Item) -> Item:
    if isinstance(item, LinkChange) and item.verdict is Verdict.AUTO:
        return dataclasses.replace(item, verdict=Verdict.CONGESTED)
    return item


SETTLED = [seed for seed in range(90) if family_of(seed) is not Family.EMERGENT]


@pytest.mark.parametrize("seeds", [SETTLED[start::4] for start in range(4)], ids=lambda seeds: f"from-{seeds[0]}")
def test_sessions_change_neither_deliveries_nor_messages(seeds: list[int]) -> None:
    for seed in seeds:
        drawn = draw_scenario(seed)
        ideal, session = (on_links(drawn, links) for links in (LinkModel.IDEAL, LinkModel.SESSION))
        assert isinstance(session.world.links, FaultyLinks)
        assert session.complaints() == ideal.complaints() == [], f"seed {seed}"
        assert arrived(session) == arrived(ideal), f"seed {seed}"
        assert session.messages() == ideal.messages(), f"seed {seed}"


def test_sessions_are_compared_where_something_arrives() -> None:
    assert len(SETTLED) == 60
    assert sum(len(arrived(on_links(draw_scenario(seed), LinkModel.IDEAL))) for seed in SETTLED) > 500


def arrived(run: Run) -> list[tuple[int, str, str, tuple[str, ...]]]:
    """Return all deliveries with their paths, in no particular order."""
    return sorted((each.publication, each.client, each.subscription, each.path) for each in run.recorder.deliveries)


# Drawn scenarios.


def nodes(expression: Expression) -> list[Expression]:
    """Return all nodes of an expression tree."""
    match expression:
        case And(operands) | Or(operands):
            return [expression, *(node for each in operands for node in nodes(each))]
        case Not(operand):
            return [expression, *nodes(operand)]
        case _:
            return [expression]


def test_scenarios_are_as_varied_as_they_should_be() -> None:
    drawn = [draw_scenario(seed) for seed in range(150)]
    scenarios = [each.scenario for each in drawn]
    assert {len(each.overlay.scot.regions) for each in scenarios} == set(range(1, 8))
    assert {each.overlay.scot.clusters for each in scenarios} == set(range(1, 7))
    assert {each.routing.algorithm for each in scenarios} == {Algorithm.STATIC, Algorithm.DYNAMIC}
    assert {each.simulator.profile for each in scenarios} == {"unit", "paper"}
    for family in Family:
        assert {each.scenario.routing.confirmations for each in drawn if each.family is family} == {True, False}
    assert any(len({client.broker for client in each.clients}) < len(each.clients) for each in scenarios)
    kinds = {type(node) for each in drawn for interest in each.interests.values() for node in nodes(interest)}
    assert {And, Or, Not} <= kinds
    items = [happening.item for each in drawn for phase in each.phases for happening in phase]
    assert len({type(item) for item in items}) == 6
    initial = [item for each in scenarios for client in each.clients for item in client.items]
    assert {item.ordered for item in initial if isinstance(item, AdvertiseItem)} == {True, False}
    assert any(isinstance(item, SubscribeItem) and item.client.startswith("P") for item in initial)
    mixed = [{isinstance(each.item, PublishItem) for each in phase} for each in drawn for phase in each.phases]
    assert {True, False} in mixed, "some requests overlap with publications"


# The oracle detects defects.


def rerouted(change: Callable[[Decision, Wanted, RoutingView], Decision]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a defect: dynamic routing whose decisions are changed."""

    def router(wanted: Wanted, at: RoutingView) -> Decision:
        return change(route_dynamically(wanted, at), wanted, at)

    def defect(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(publishing.ROUTERS, Algorithm.DYNAMIC, router)

    defect.__name__ = change.__name__
    return defect


@rerouted
def drop_one_copy(decision: Decision, wanted: Wanted, at: RoutingView) -> Decision:
    return Decision(decision.forwards[:-1], decision.case)


@rerouted
def send_one_copy_twice(decision: Decision, wanted: Wanted, at: RoutingView) -> Decision:
    return Decision((*decision.forwards, *decision.forwards[-1:]), decision.case)


@rerouted
def leave_bits_of_free_clusters_set(decision: Decision, wanted: Wanted, at: RoutingView) -> Decision:
    forwards = [Forward(each.link, each.publication_civ and wanted.targets) for each in decision.forwards]
    return Decision(tuple(forwards), decision.case)


@rerouted
def forget_waiting_clusters(decision: Decision, wanted: Wanted, at: RoutingView) -> Decision:
    return Decision(tuple(Forward(each.link) for each in decision.forwards), decision.case)


@rerouted
def send_to_the_uninterested(decision: Decision, wanted: Wanted, at: RoutingView) -> Decision:
    if not wanted.targets:
        return decision
    sent = {each.link for each in decision.forwards}
    others = [each for each in at._state.neighbourhood.primary_neighbours if each not in sent]
    return Decision((*decision.forwards, *map(Forward, others[:1])), decision.case)


@rerouted
def write_into_a_table(decision: Decision, wanted: Wanted, at: RoutingView) -> Decision:
    for entry in at._state.clt:
        entry.civ = ClusterIndexVector(0, entry.civ.clusters)
    return decision


def route_static_publications_dynamically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(publishing.ROUTERS, Algorithm.STATIC, route_dynamically)


def send_to_every_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def everywhere(entry: CltEntry) -> ClusterIndexVector:
        return ClusterIndexVector.of(range(entry.civ.clusters), entry.civ.clusters)

    monkeypatch.setattr(CltEntry, "routing_civ", property(everywhere))


def take_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(state: CommonState, peer: BrokerId, now_ms: float, classes: int) -> Message | None:
        queue = state.queues[peer]
        if queue._control:
            return queue._control.popleft()
        lane = queue._oldest_lane(classes)
        if lane is None:
            return None
        queue.window.roll(now_ms, len(queue))
        queue.window.left += 1
        queue._size -= 1
        entry = lane.entries.pop()
        lane.size_bytes -= entry.size_bytes
        return entry.message

    monkeypatch.setattr(CommonState, "take", take)


def never_clear_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    send = State.send_civ_updates

    def send_all_but_unsets(state: State, update: type[CivSet | CivUnset | CivNone], entries: list[CltEntry]) -> None:
        if update is not CivUnset:
            send(state, update, entries)

    monkeypatch.setattr(State, "send_civ_updates", send_all_but_unsets)


def refuse_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def conforming(clt: Clt, publication: Publication, publisher: ClientId) -> list[CltEntry]:
        return [entry for entry in clt if entry.last_hop == publisher]

    monkeypatch.setattr(Clt, "conforming", conforming)


def forget_to_unsubscribe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribing, "on_unsubscribe", lambda state, sender, message: None)


def match_by(monkeypatch: pytest.MonkeyPatch, matches: Callable[[Disjunction, Publication], bool]) -> None:
    """Let brokers match by another relation: the index evaluates every entry that its rows cannot decide."""
    monkeypatch.setattr(index, "matches", matches)
    monkeypatch.setattr(index.IndexSubscriptions, "match", index.IndexSubscriptions._scan)


def match_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    match_by(monkeypatch, lambda interest, publication: True)


def match_the_first_filter_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def matches(interest: Disjunction, publication: Publication) -> bool:
        return any(each.matches(publication.attributes) for each in interest.filters[:1])

    match_by(monkeypatch, matches)


@pytest.mark.parametrize(
    ("defect", "sentence"),
    [
        (drop_one_copy, "which wants it"),
        (drop_one_copy, "did not enter cluster"),
        (send_one_copy_twice, "was delivered 2 times"),
        (send_one_copy_twice, "came to broker"),
        (leave_bits_of_free_clusters_set, "entered cluster"),
        (forget_waiting_clusters, "did not enter cluster"),
        (send_to_the_uninterested, "for nothing"),
        (send_to_every_cluster, "where nobody intersects"),
        (write_into_a_table, "changed the tables"),
        (route_static_publications_dynamically, "hops where static routing takes"),
        (route_static_publications_dynamically, "static routing took a case"),
        (take_the_newest, "after"),
        (never_clear_bits, "but the clusters are"),
        (refuse_nothing, "was not refused"),
        (match_everything, "which does not want it"),
        (forget_to_unsubscribe, "still holds"),
        (match_the_first_filter_only, "which wants it"),
        (match_the_first_filter_only, "false positives"),
    ],
)
def test_a_broken_broker_does_not_pass(
    defect: Callable[[pytest.MonkeyPatch], None], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    complaints = (each for seed in range(90) for each in play(draw_scenario(seed)).complaints)
    assert any(sentence in each and not each.startswith(SECOND_OPINION) for each in complaints), "nobody said so"


@pytest.mark.parametrize("defect", [drop_one_copy, send_one_copy_twice, match_everything])
def test_the_checkers_of_the_simulator_notice_too(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    complaints = (each for seed in range(90) for each in play(draw_scenario(seed)).complaints)
    assert any(each.startswith(SECOND_OPINION) for each in complaints)


# Replaying.


def test_an_error_names_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(wanted: Wanted, at: RoutingView) -> Decision:
        raise LookupError("no link")

    for algorithm in (Algorithm.STATIC, Algorithm.DYNAMIC):
        monkeypatch.setitem(publishing.ROUTERS, algorithm, fail)
    with pytest.raises(AssertionError, match=r"no link(.|\n)*replay_scenario.py 1 --check$"):
        expect_no_complaints(1, check=True)


def test_a_failure_names_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        drop_one_copy(patch)
        seed = next(seed for seed in range(90) if play(draw_scenario(seed)).complaints)
        with pytest.raises(pytest.fail.Exception) as failure:
            expect_no_complaints(seed)
        command = shlex.split(str(failure.value).rpartition("replay with: ")[2])
        assert replay_scenario.main(command[2:]) == 1
        assert "which wants it\n" in capsys.readouterr().out
    # The command works from the root of the repository, where the broker is not broken.
    replayed = subprocess.run([sys.executable, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert replayed.returncode == 0, replayed.stderr
    assert f"seed {seed}, " in replayed.stdout
    assert replayed.stdout.endswith("no complaints\n")
