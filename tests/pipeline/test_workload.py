import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from small import SMALL

from octopia.content import conforms, matches
from octopia.pipeline import generation, schedule
from octopia.pipeline.jobs import Workspace
from octopia.pipeline.market import symbol_of, synthetic_bars
from octopia.pipeline.spec import Meaning, WorkloadSpec
from octopia.workloads.arrow import read_table
from octopia.workloads.workload import Timed, load_workload

SYMBOLS = [symbol_of(number) for number in range(40)]
DEALT = schedule.deal(SYMBOLS, SMALL)
BY_PUBLISHERS = dataclasses.replace(SMALL, meaning=Meaning.PUBLISHERS)


def digest(rows: Iterable[object]) -> str:
    """A hash of the sorted rows."""
    return hashlib.sha256("\n".join(sorted(map(str, rows))).encode()).hexdigest()


def digests(spark: SparkSession, workspace: Workspace, partitions: int) -> list[str]:
    """The digests of all tables of the small workload, made with this number of partitions."""
    name = f"parted-{partitions}"
    settings = {"spark.sql.shuffle.partitions": partitions, "spark.sql.leafNodeDefaultParallelism": partitions}
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        bars = synthetic_bars(spark, symbols=40, days=20, seed=SMALL.seed).repartition(partitions)
        workspace.storage.write(schedule.publications(bars, DEALT, SMALL), f"{name}/publications")
        made = workspace.storage.read(spark, f"{name}/publications")
        workspace.storage.write(generation.offers(made), f"{name}/offers")
        workspace.storage.write(generation.pool(made, SMALL.seed), f"{name}/pool")
        offers = workspace.storage.read(spark, f"{name}/offers")
        paths = workspace.table(name, "offers"), workspace.table(name, "pool")
        of_publishers = generation.subscriptions(spark, BY_PUBLISHERS, *paths)
        issued = [
            generation.advertisements(offers, SMALL),
            generation.subscriptions(spark, SMALL, *paths),
            of_publishers,
        ]
        # All in one job; the position identifies the table.
        told = [
            frame.select(F.lit(place).alias("place"), F.struct("*").alias("row")) for place, frame in enumerate(issued)
        ]
        rows = functools.reduce(DataFrame.unionAll, told).collect()
        of_issued = [digest(each.row.asDict() for each in rows if each.place == place) for place in range(len(issued))]
        return [digest(read_table(workspace.table(name, "publications")).to_pylist()), *of_issued]
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def test_the_same_seed_gives_the_same_tables_however_they_are_partitioned(spark, workspace, small_workload):
    one, eight = (digests(spark, workspace, partitions) for partitions in (1, 8))
    # The small workload itself was made with two partitions.
    assert spark.conf.get("spark.sql.shuffle.partitions") == str(spark.sparkContext.defaultParallelism) == "2"
    tables = [workspace.table("small", name) for name in ("publications", "advertisements", "subscriptions")]
    two = [digest(read_table(path).to_pylist()) for path in tables]
    of_publishers = generation.subscriptions(
        spark, BY_PUBLISHERS, workspace.table("small", "offers"), "no pool is needed"
    )
    two.append(digest(row.asDict() for row in of_publishers.collect()))
    assert one == two == eight
    assert len(set(one)) == 4


@pytest.fixture(scope="module")
def played(small_workload):
    return load_workload(small_workload)


def test_publications_are_numbered_by_time(played):
    timed = list(played.timed())
    assert [each.number for each in timed] == list(range(8 * 30 + 60))
    assert [each.at_ms for each in timed] == sorted(each.at_ms for each in timed)


def test_every_publisher_publishes_as_much_as_asked_at_its_rate(played):
    gaps_ms: list[float] = []
    for number in range(8):
        times = [each.at_ms for each in played.timed() if each.publisher == f"p{number}"]
        assert len(times) == 30
        gaps_ms += [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps_ms) >= 500.0 - 0.001
    assert max(gaps_ms) <= 600.0 + 0.001
    assert len({round(gap) for gap in gaps_ms}) > 20


def test_a_burst_has_its_own_rate(played):
    times = [each.at_ms for each in played.timed() if each.publisher == "burst"]
    assert times == [1000.0 + 10.0 * turn for turn in range(60)]


def test_publications_have_seven_attributes(played):
    first: Timed = next(played.timed())
    assert list(first.publication.attributes) == ["symbol", "date", "open", "high", "low", "close", "volume"]
    assert 20_130_000 < first.publication.attributes["date"] < 20_140_000


def test_publications_conform_to_what_their_publisher_advertised(played):
    offers = {each.client: each.filter for each in played.advertisements}
    assert len(offers) == 9
    assert all(conforms(offers[each.publisher], each.publication) for each in played.timed())


def test_subscriptions_of_the_burst_are_those_that_match_it(played):
    burst = [each.publication for each in played.timed() if each.publisher == "burst"]
    wanting = [each for each in played.subscriptions if any(matches(each.filter, one) for one in burst)]
    assert [each.id for each in wanting] == [f"s{number}/0" for number in range(6)]
    assert all(matches(each.filter, one) for each in wanting for one in burst)
    host = next(each.broker for each in played.advertisements if each.client == "burst")
    assert {each.broker.cluster for each in wanting} == {0, 1}
    assert host not in [each.broker for each in wanting]


def test_the_achieved_selectivity_is_measured(workspace, small_workload, played):
    measured = workspace.storage.read_json("small/workload.json")["selectivity"]
    ordinary = [each for each in played.timed() if each.publisher != "burst"]
    pairs = [
        (each.publisher, subscription.id)
        for each in ordinary
        for subscription in played.subscriptions
        if matches(subscription.filter, each.publication)
    ]
    assert measured["measured"] == 120
    assert measured["of_publications"] == pytest.approx(len(pairs) / (len(ordinary) * 120))
    assert measured["of_publishers"] == pytest.approx(len(set(pairs)) / (8 * 120))
    assert measured["of_burst"] == pytest.approx(6 / 120)
    assert measured["of_publications"] == pytest.approx(0.1, rel=0.2)


def test_the_truth_is_what_brokers_call_matching(spark, workspace, small_workload, played):
    found = {(row.publication, row.subscription) for row in workspace.storage.read(spark, "small/truth").collect()}
    numbered = [(number, each.filter) for number, each in enumerate(played.subscriptions)]
    assert found == {
        (each.number, number)
        for each in played.timed()
        for number, wanted in numbered
        if matches(wanted, each.publication)
    }


def test_all_bars_are_published_where_no_number_is_given(spark):
    bars = synthetic_bars(spark, symbols=12, days=7, seed=2)
    spec = WorkloadSpec("a-b", 2, publishers=4, publications=0)
    made = schedule.publications(bars, schedule.deal(SYMBOLS[:12], spec), spec)
    found = made.select(F.count("*").alias("all"), F.countDistinct("symbol", "date").alias("distinct")).first()
    assert (found["all"], found["distinct"]) == (12 * 7, 12 * 7)


def test_a_publisher_without_enough_bars_begins_again(spark):
    bars = synthetic_bars(spark, symbols=4, days=20, seed=2)
    spec = WorkloadSpec("a-b", 2, publishers=4, publications=50)
    made = schedule.publications(bars, schedule.deal(SYMBOLS[:4], spec), spec)
    counts = made.groupBy("symbol", "date").agg(F.count("*").alias("times"))
    assert {row.times for row in counts.collect()} == {2, 3}
