"""Audits: a clean run has no faults, and exactly the planted faults are found."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from trace_frames import fact, frame_of, play, table

from octopia.errors import InvalidData
from octopia.pipeline.audit import activity, audit, doubtful, summary
from octopia.pipeline.schemas import FAULTS, ISSUED, MATCHES
from octopia.settings import Algorithm
from octopia.trace import Row
from support import scenario_from

PRICES = [random.Random(3).randrange(1, 100) for _ in range(40)]
REFUSED = (4, 17, 31)
"""Publications that their publisher never advertised; they match like all others."""
THRESHOLDS = {"nyc.1": 5, "lon.0": 30, "lon.1": 50, "tok.0": 70, "tok.1": 95, "nyc.0": 1000}
NAMES = [f"s{number}/0" for number in range(len(THRESHOLDS))]

SCENARIO = """
name = "audited"
[overlay]
tree = "nyc-lon, lon-tok"
clusters = 2
[[client]]
name = "p"
broker = "lon.0"
advertise = ["symbol = 'IBM' AND price > 0"]
"""

Pair = tuple[int, int]
Fault = tuple[str, str, int, int | None, int]


def scenario_text() -> str:
    clients = [
        f'[[client]]\nname = "s{number}"\nbroker = "{broker}"\nsubscribe = ["price > {threshold}"]'
        for number, (broker, threshold) in enumerate(THRESHOLDS.items())
    ]
    symbols = ["XYZ" if number in REFUSED else "IBM" for number in range(len(PRICES))]
    events = [
        f'[[event]]\nclient = "p"\npublish = {{ symbol = "{symbol}", price = {price} }}'
        for symbol, price in zip(symbols, PRICES, strict=True)
    ]
    return "\n".join([SCENARIO, *clients, *events])


def truth() -> set[Pair]:
    """All pairs that match, including publications that no run makes."""
    prices = [*PRICES, 60, 80]
    return {(p, s) for p, price in enumerate(prices) for s, low in enumerate(THRESHOLDS.values()) if price > low}


def truth_frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(sorted(truth()), MATCHES)


def subscriptions_frame(spark: SparkSession) -> DataFrame:
    rows = [(number, name, name[:-2], "lon.0", "", False) for number, name in enumerate(NAMES)]
    return spark.createDataFrame(rows, ISSUED)


@pytest.fixture(scope="module")
def traces() -> dict[str, list[Row]]:
    """Return the clean traces of some runs, by run."""
    scenario = scenario_from(scenario_text())
    algorithms = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.TID_STATIC)
    told = [play(scenario, algorithm, "unit", 0)[1] for algorithm in algorithms]
    return {rows[0].run_id: rows for rows in told}


@dataclasses.dataclass
class Planted:
    """A copy of a trace with planted faults."""

    run: str
    rows: list[Row]
    faults: set[Fault] = dataclasses.field(default_factory=set)

    def add(self, kind: str, publication: int, subscription: int | None, copies: int) -> None:
        self.faults.add((kind, self.run, publication, subscription, copies))


def plant(rows: list[Row], run: str, seed: int) -> Planted:
    """Plant faults at random; each delivery gets at most one."""
    draw = random.Random(seed)
    planted = Planted(run, [])
    untouched = truth()
    for original in rows:
        row = msgspec.structs.replace(original, run_id=run)
        what = draw.choice(["keep"] * 4 + ["drop", "double", "redirect", "redirect twice", "forget"])
        if row.event != "deliver" or what == "keep":
            planted.rows.append(row)
            continue
        publication, subscription = row.publication or 0, NAMES.index(row.subscription or "")
        if what == "double":
            copies = draw.randrange(2, 5)
            planted.rows += [row] * copies
            planted.add("duplicate", publication, subscription, copies)
            continue
        planted.add("missing", publication, subscription, 0)
        others = [each for each in range(len(NAMES)) if (publication, each) not in untouched]
        if what.startswith("redirect") and others:
            copies = 2 if what == "redirect twice" else 1
            # No other unwanted delivery has this publication, so the number of copies is known.
            other = draw.choice(others)
            untouched.add((publication, other))
            planted.rows += [msgspec.structs.replace(row, subscription=NAMES[other])] * copies
            planted.add("unwanted", publication, other, copies)
            if copies > 1:
                planted.add("duplicate", publication, other, copies)
        elif what == "forget":
            planted.rows.append(msgspec.structs.replace(row, subscription=f"nobody/{subscription}"))
            planted.add("unwanted", publication, None, 1)
    return planted


def expected_summary(rows: list[Row], faults: list[Fault]) -> tuple[int, ...]:
    events = Counter((row.event, row.kind, row.link) for row in rows)
    taken = {row.publication for row in rows if (row.event, row.kind, row.link) == ("receive", "publication", "client")}
    kinds = Counter(fault[0] for fault in faults)
    return (
        len(taken),
        events["deliver", "publication", "client"],
        sum(publication in taken for publication, _ in truth()),
        kinds["missing"],
        kinds["unwanted"],
        sum(fault[4] - 1 for fault in faults if fault[0] == "duplicate"),
        events["refuse", "publication", "client"],
    )


def test_exactly_the_planted_faults_are_found(spark: SparkSession, traces: dict[str, list[Row]]):
    """One audit of many runs: clean ones, runs with faults, and runs of a slice of the publications."""
    all_runs = dict(traces)
    expected: set[Fault] = set()
    for seed, (run, rows) in enumerate(traces.items()):
        planted = plant(rows, f"{run}-planted", seed)
        assert Counter(fault[0] for fault in planted.faults).keys() == {"missing", "unwanted", "duplicate"}
        expected |= planted.faults
        all_runs[planted.run] = planted.rows
    a_slice = [row for row in traces["audited-dynamic-0"] if row.publication is None or 10 <= row.publication < 20]
    all_runs["slice"] = [msgspec.structs.replace(row, run_id="slice") for row in a_slice]
    # Delivering a refused publication is a fault, although it matches.
    refused = next(number for number in REFUSED if (number, 0) in truth())
    rows = [msgspec.structs.replace(row, run_id="gift") for row in traces["audited-static-0"]]
    delivery = next(row for row in rows if row.event == "deliver")
    gift = msgspec.structs.replace(delivery, publication=refused, subscription=NAMES[0])
    all_runs["gift"] = [*rows, gift]
    expected.add(("unwanted", "gift", refused, 0, 1))

    everything = [row for rows in all_runs.values() for row in rows]
    random.Random(1).shuffle(everything)
    trace = frame_of(spark, everything).repartition(3).persist()
    faults = audit(trace, truth_frame(spark), subscriptions_frame(spark)).persist()
    found = [tuple(row) for row in faults.collect()]
    assert [(field.name, field.dataType) for field in faults.schema] == [(each.name, each.dataType) for each in FAULTS]
    # Unknown subscriptions have no number, so several of them may look the same.
    assert set(found) == expected
    assert len([fault for fault in found if fault[3] is not None]) == len({f for f in expected if f[3] is not None})

    # Exactly the publications with faults are doubtful, and comparing only those finds all faults.
    doubts = doubtful(trace, truth_frame(spark), subscriptions_frame(spark)).persist()
    assert sorted(map(tuple, doubts.collect())) == sorted({(fault[2], fault[1]) for fault in expected})
    again = audit(trace, truth_frame(spark), subscriptions_frame(spark), only=doubts)
    assert Counter(tuple(row) for row in again.collect()) == Counter(found)
    doubts.unpersist()

    counted = {row["run_id"]: tuple(row.values())[2:] for row in summary(activity(trace), faults)}
    assert counted == {
        run: expected_summary(rows, [fault for fault in found if fault[1] == run]) for run, rows in all_runs.items()
    }
    assert counted["audited-static-0"][3:] == (0, 0, 0, len(REFUSED))
    assert counted["slice"][0] == 10 - sum(10 <= number < 20 for number in REFUSED)
    faults.unpersist()
    trace.unpersist()


def test_subscriptions_that_nobody_knows_are_told_apart(spark: SparkSession):
    taken = fact("receive", 0.0, kind="publication", link="client", publication=39)
    strangers = [
        fact("deliver", 1.0, kind="publication", publication=39, subscription=name) for name in ("x", "y", "y")
    ]
    no_truth = spark.createDataFrame([], MATCHES)
    faults = audit(frame_of(spark, [taken, *strangers]), no_truth, subscriptions_frame(spark))
    assert table(faults) == [
        ("duplicate", "run", 39, None, 2),
        ("unwanted", "run", 39, None, 1),
        ("unwanted", "run", 39, None, 2),
    ]


def test_a_trace_that_does_not_tell_what_was_published_cannot_be_audited(
    spark: SparkSession, traces: dict[str, list[Row]]
):
    rows = [row for row in traces["audited-static-0"] if row.event in ("deliver", "refuse", "drop")]
    with pytest.raises(InvalidData, match="in the trace of audited-static-0, got deliveries only"):
        activity(frame_of(spark, rows))
