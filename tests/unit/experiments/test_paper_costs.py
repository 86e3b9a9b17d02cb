import dataclasses
import gc
import random

import pytest

pytest.importorskip("pyarrow")

import pyarrow

from octopia.broker import OctopiaBroker, Verdict
from octopia.content import matches, parse_filter
from octopia.errors import InvariantBroken, UsageError
from octopia.experiments.paper import costs
from octopia.experiments.paper.costs import Measuring, Pass, check_stops, congested, measure_costs, sample
from octopia.experiments.paper.loads import measure_loads
from octopia.experiments.paper.names import Contender
from octopia.experiments.paper.replay import Stop, replay
from octopia.experiments.paper.visits import Played, play_for_visits
from octopia.ids import BrokerId
from octopia.overlay.files import overlay_from_text
from octopia.pipeline.spec import WorkloadSpec
from octopia.settings import Algorithm
from octopia.tid.core import TidBroker
from octopia.workloads.workload import Issued, Workload

TREE, CLUSTERS = "path:3", 4
BOTH = (Algorithm.STATIC, Algorithm.TID_STATIC)
PLAYED = (*BOTH, Algorithm.ADAPTIVE)
QUICK = Measuring(publications=12, visits=60, rounds=3)


def issued(name: str, broker: BrokerId, text: str) -> Issued:
    return Issued(f"{name}/0", name, broker, text, parse_filter(text))


def make_workload(publications: int = 20, subscriptions: int = 40) -> Workload:
    """Three publishers, and subscribers at random brokers who want parts of what they offer."""
    scot = overlay_from_text(TREE, CLUSTERS).scot
    draw, brokers = random.Random(7), scot.brokers
    offers = [issued(f"p{n}", brokers[4 * n], f"symbol = 's{n}' AND price >= 0 AND price <= 100") for n in range(3)]
    interests = []
    for number in range(subscriptions):
        low = draw.randrange(80)
        text = f"symbol = 's{draw.randrange(3)}' AND price >= {low} AND price <= {low + 20}"
        interests.append(issued(f"c{number}", draw.choice(brokers), text))
    table = pyarrow.table(
        {
            "number": list(range(publications)),
            # Later numbers are due earlier: nobody may take a number for an order.
            "at_ms": [float(publications - number) for number in range(publications)],
            "publisher": [f"p{number % 3}" for number in range(publications)],
            "symbol": [f"s{number % 3}" for number in range(publications)],
            "price": [draw.randrange(100) for _ in range(publications)],
        }
    )
    return Workload("small", TREE, scot, tuple(offers), tuple(interests), table)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return make_workload()


def play(workload: Workload, algorithm: Algorithm, publications: int = 12) -> Played:
    return play_for_visits(workload, algorithm, publications, seed=0)


def check_all(stops: list[Stop]) -> None:
    for stop in stops:
        stop.check()


def congestion(played: Played) -> set[bool]:
    tables = [broker.link_status_table(played.now_ms) for broker in played.brokers.values()]
    return {status.congested for table in tables for status in table.values()}


def test_all_algorithms_are_measured(workload: Workload):
    rows = measure_costs(workload, list(Contender)[:5], QUICK)
    assert [row.algorithm for row in rows] == ["static", "dynamic", "adaptive", "tid-static", "tid-dynamic"]
    assert {(row.subscribers, row.publications) for row in rows} == {(40, 12)}
    assert all(min(row.match_us, row.select_us, row.select_congested_us) > 0 for row in rows)
    static, dynamic, adaptive, tid_static, tid_dynamic = (row.visits_each for row in rows)
    assert static == dynamic == adaptive == len(play(workload, Algorithm.STATIC).visits) / 12
    assert tid_static == tid_dynamic == len(play(workload, Algorithm.TID_STATIC).visits) / 12


def test_one_algorithm_can_be_measured_alone(workload: Workload):
    [row] = measure_costs(workload, [Contender.TID_DYNAMIC], QUICK)
    assert row.algorithm == "tid-dynamic"


@pytest.mark.parametrize("algorithm", PLAYED)
def test_visits_are_paths_from_host_brokers_to_subscribers(workload: Workload, algorithm: Algorithm):
    played = play(workload, algorithm)
    hosts = [visit for visit in played.visits if visit.is_at_host]
    assert len(hosts) == len({visit.id for visit in hosts}) == played.publications == 12
    assert all(visit.broker == visit.id.host_broker for visit in hosts)
    sent = [(visit.id, visit.broker, link) for visit in played.visits for link in visit.sent_to]
    received = [(visit.id, visit.came_from, visit.broker) for visit in played.visits if not visit.is_at_host]
    assert sent
    assert sorted(sent) == sorted(received)
    delivered = sum(len(visit.delivered) for visit in played.visits)
    wanted = sum(
        matches(each.filter, timed.publication) for timed in workload.timed(12) for each in workload.subscriptions
    )
    assert delivered == wanted > 12


@pytest.mark.parametrize("algorithm", PLAYED)
def test_a_sound_replay_passes_its_check(workload: Workload, algorithm: Algorithm):
    played = play(workload, algorithm)
    check_stops(played, replay(played, played.visits))


def without_a_subscription(broker: object) -> None:
    """Take a subscription out of a table, and tell nobody."""
    if isinstance(broker, OctopiaBroker):
        broker.state.prt.remove(next(iter(broker.state.prt)).id)
    elif isinstance(broker, TidBroker):
        copy = next(iter(broker.state.prt))
        broker.state.prt.remove_from(copy.subscription, copy.last_hop)


@pytest.mark.parametrize("algorithm", PLAYED)
def test_a_table_that_lacks_subscriptions_is_found_out(workload: Workload, algorithm: Algorithm):
    played = play(workload, algorithm)
    visit = next(visit for visit in played.visits if visit.delivered and not visit.is_at_host)
    broker = played.brokers[visit.broker]
    while broker.table_sizes()["prt"]:
        without_a_subscription(broker)
    with pytest.raises(InvariantBroken, match=f"expected the deliveries of publication .* at {visit.broker}"):
        check_stops(played, replay(played, played.visits))


@pytest.mark.parametrize(("algorithm", "name"), [(Algorithm.STATIC, "SPR"), (Algorithm.TID_STATIC, "TID-S")])
def test_links_that_differ_from_those_of_the_run_are_found_out(workload: Workload, algorithm: Algorithm, name: str):
    played = play(workload, algorithm)
    visit = next(visit for visit in played.visits if visit.sent_to)
    wrong = dataclasses.replace(visit, sent_to=visit.sent_to[1:])
    with pytest.raises(InvariantBroken, match=f"links of {name} of publication {visit.id} at {visit.broker}"):
        check_stops(played, replay(played, [wrong]))


def test_links_that_should_be_free_and_are_not_are_found_out(workload: Workload):
    played = play(workload, Algorithm.STATIC)
    stops = replay(played, played.visits)
    with congested(played), pytest.raises(InvariantBroken, match="expected the decision of IDR"):
        check_all(stops)


@pytest.mark.parametrize(("algorithm", "what"), [(Algorithm.STATIC, "case of IDR"), (Algorithm.TID_STATIC, "search")])
def test_links_that_should_be_congested_and_are_not_are_found_out(workload: Workload, algorithm: Algorithm, what: str):
    played = play(workload, algorithm)
    stops = replay(played, played.visits)
    with congested(played):
        for stop in stops:
            stop.check_congested()
    going_on = next(stop for stop, visit in zip(stops, played.visits, strict=True) if visit.sent_to)
    with pytest.raises(InvariantBroken, match=f"expected the {what}"):
        going_on.check_congested()


def fail_while_congested(played: Played) -> None:
    with congested(played):
        assert congestion(played) == {True}
        raise ZeroDivisionError


@pytest.mark.parametrize("algorithm", BOTH)
def test_congestion_is_forced_and_released(workload: Workload, algorithm: Algorithm):
    played = play(workload, algorithm)
    assert congestion(played) == {False}
    with pytest.raises(ZeroDivisionError):
        fail_while_congested(played)
    assert congestion(played) == {False}
    # It is Eq. 3 that judges: a long queue is congested again.
    broker = played.brokers[BrokerId("a", 0)]
    neighbour = next(iter(broker.link_status_table(played.now_ms)))
    broker.force(neighbour, Verdict.AUTO, 1_000, played.now_ms)
    assert congestion(played) == {False, True}


def test_ordinary_loads_count_copies_on_links(workload: Workload):
    spec = WorkloadSpec(tree=TREE, clusters=CLUSTERS, publishers=3, per_minute_min=60.0, per_minute_max=60.0)
    rows = list(measure_loads(workload, spec, publications=12))
    assert [(row.model, row.system) for row in rows] == [
        ("links", "OctopiA"),
        ("links", "TID"),
        ("race-trees", "TID"),
    ]
    # Three publishers send one publication a second each, and a link carries a publication at most once.
    assert all(0 < row.alink_per_s_max <= 3 and 0 < row.ilink_per_s_max <= 3 for row in rows)
    octopia = play(workload, Algorithm.STATIC)
    ilinks = [link.region == visit.broker.region for visit in octopia.visits for link in visit.sent_to]
    assert rows[0].ilink_share == sum(ilinks) / len(ilinks)


def test_a_burst_is_no_ordinary_traffic(workload: Workload):
    names = ["burst" if number % 2 else "p0" for number in range(20)]
    table = workload._publications.drop_columns("publisher").append_column("publisher", pyarrow.array(names))
    mixed = dataclasses.replace(workload, _publications=table)
    assert [each.publisher for each in mixed.without_burst(7).timed()] == ["p0"] * 7


def test_the_seed_decides_the_sample(workload: Workload):
    visits = play(workload, Algorithm.STATIC).visits
    drawn = sample(visits, Measuring(visits=10, seed=1))
    assert len({(visit.id, visit.broker) for visit in drawn}) == 10
    assert drawn == sample(play(workload, Algorithm.STATIC).visits, Measuring(visits=10, seed=1))
    assert drawn != sample(visits, Measuring(visits=10, seed=2))
    everything = sample(visits, Measuring(visits=100_000))
    assert len(everything) == len(visits)
    assert everything != list(visits)


def test_turns_are_taken_until_every_pass_is_through():
    taken: list[str] = []
    idle = [lambda: None] * 250
    passes = [Pass([lambda name=name: taken.append(name)] * length, idle) for name, length in (("a", 250), ("b", 110))]
    costs._take_turns(passes, random.Random(0))
    assert (taken.count("a"), taken.count("b")) == (250, 110)
    assert [each.done for each in passes] == [250, 110]
    # The first turns of both come before the second of either.
    assert taken[: 2 * costs.TURN].count("a") == taken[: 2 * costs.TURN].count("b") == costs.TURN


def test_a_pass_that_takes_too_long_ends_early(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(costs, "_seconds", lambda steps: 1.5 if steps[0] else 0.0)
    one = Pass([True] * 1_000, [False] * 1_000)
    costs._take_turns([one], random.Random(0))
    assert (one.done, one.seconds) == (2 * costs.TURN, 3.0)
    assert one.each_us == 15_000.0


def test_the_garbage_collector_runs_again_afterwards(workload: Workload, monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(costs, "_seconds", lambda steps: float(seen.append(gc.isenabled()) is None))
    measure_costs(workload, [Contender.STATIC], QUICK)
    assert set(seen) == {False}
    assert gc.isenabled()


def test_a_workload_without_publications_is_refused():
    with pytest.raises(UsageError, match="expected publications that brokers accept in workload small, got none"):
        measure_costs(make_workload(publications=0), [Contender.STATIC], QUICK)


@pytest.mark.parametrize("field", ["publications", "visits", "rounds"])
def test_nothing_cannot_be_measured(field: str):
    with pytest.raises(UsageError, match="expected at least one publication, visit and round"):
        Measuring(**{field: 0})
