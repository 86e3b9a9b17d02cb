"""The trace: one flat row per fact, the same as JSON lines and as Parquet."""

import json
from pathlib import Path

import msgspec
import pyarrow.parquet
import pytest

from octopia.broker import Detail
from octopia.scenario import load_scenario
from octopia.simulator.profiles import PAPER
from octopia.simulator.run import run_scenario
from octopia.trace import COLUMNS, DISTINCT_SUBSCRIPTIONS, Deliveries, JsonLines, Parquet, Recipients, Row
from support import EXAMPLES, RowList, scenario_from

CONTRACT = [
    "run_id",
    "algorithm",
    "kind",
    "message_id",
    "publication",
    "event",
    "broker",
    "peer",
    "link",
    "client",
    "subscription",
    "civ",
    "queue_length",
    "hop",
    "published_ms",
    "time_ms",
    "match_us",
    "select_us",
    "value",
    "carries",
]

SMALL = """
name = "small"
[overlay]
tree = "a"
clusters = 2
[routing]
confirmations = false
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "S"
broker = "a.1"
subscribe = ["x > 5"]
[[event]]
client = "P"
publish = { x = 9 }
[[event]]
client = "P"
publish = { y = 9 }
"""


def rows_of(text: str, detail: Detail) -> list[Row]:
    rows = RowList()
    run_scenario(scenario_from(text), detail=detail, sinks=[rows])
    return rows.rows


def read_back(path: Path) -> list[Row]:
    return [msgspec.json.decode(line, type=Row) for line in path.read_text().splitlines()]


def short(row: Row) -> tuple[object, ...]:
    return row.time_ms, row.event, row.broker, row.peer, row.kind, row.publication


def test_the_columns_stand_in_the_order_of_the_contract():
    assert list(COLUMNS) == CONTRACT


def test_json_lines_have_all_columns_in_order(tmp_path: Path):
    with JsonLines(tmp_path / "trace.jsonl") as sink:
        run_scenario(scenario_from(SMALL), detail=Detail.ALL, sinks=[sink])
    lines = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert len(lines) > 10
    assert all(list(json.loads(line)) == CONTRACT for line in lines)


def test_json_lines_and_parquet_tell_the_same(tmp_path: Path):
    rows = RowList()
    with JsonLines(tmp_path / "trace.jsonl") as lines, Parquet(tmp_path / "trace.parquet") as parquet:
        run_scenario(
            load_scenario(EXAMPLES / "fig7d.toml"), profile=PAPER, detail=Detail.ALL, sinks=[rows, lines, parquet]
        )
    table = pyarrow.parquet.read_table(tmp_path / "trace.parquet")
    assert table.column_names == CONTRACT
    assert table.to_pylist() == [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert read_back(tmp_path / "trace.jsonl") == rows.rows


def test_parquet_types_do_not_depend_on_the_rows(tmp_path: Path):
    for name, rows in (("empty", []), ("one", [Row(run_id="r", algorithm="a", event="send", broker="b", time_ms=1.0)])):
        with Parquet(tmp_path / f"{name}.parquet") as sink:
            for row in rows:
                sink.write(row)
    schemas = [pyarrow.parquet.read_schema(tmp_path / f"{name}.parquet") for name in ("empty", "one")]
    assert schemas[0].equals(schemas[1])
    types = {field.name: str(field.type) for field in schemas[0]}
    assert {name for name, kind in types.items() if kind == "int64"} == {"publication", "queue_length", "hop"}
    assert {name for name, kind in types.items() if kind == "double"} == {
        "published_ms",
        "time_ms",
        "match_us",
        "select_us",
        "value",
    }


def test_a_trace_of_hops_row_by_row():
    assert [short(row) for row in rows_of(SMALL, Detail.HOPS)] == [
        (1.0, "receive", "a.0", "P", "advertisement", None),
        (1.0, "send", "a.0", "a.1", "advertisement", None),
        (2.0, "receive", "a.1", "a.0", "advertisement", None),
        (3.0, "receive", "a.1", "S", "subscription", None),
        (3.0, "send", "a.1", "a.0", "civ_set", None),
        (4.0, "receive", "a.0", "a.1", "civ_set", None),
        (5.0, "receive", "a.0", "P", "publication", 0),
        (5.0, "send", "a.0", "a.1", "publication", 0),
        (6.0, "receive", "a.1", "a.0", "publication", 0),
        (7.0, "deliver", "a.1", "S", "publication", 0),
        (8.0, "refuse", "a.0", "P", "publication", 1),
    ]
    rows = rows_of(SMALL, Detail.HOPS)
    delivered = rows[[row.event for row in rows].index("deliver")]
    assert (delivered.client, delivered.subscription, delivered.link, delivered.hop) == ("S", "S/0", "client", 1)
    assert (delivered.published_ms, delivered.run_id, delivered.algorithm) == (4.0, "small-dynamic-0", "dynamic")


@pytest.mark.parametrize(
    ("detail", "events"),
    [
        (Detail.DELIVERIES, {"deliver", "refuse"}),
        (Detail.HOPS, {"deliver", "refuse", "receive", "send"}),
        (Detail.ALL, {"deliver", "refuse", "receive", "send", "enqueue", "table"}),
    ],
)
def test_each_level_tells_more(detail: Detail, events: set[str]):
    assert {row.event for row in rows_of(SMALL, detail)} == events


def test_tables_are_named_by_kind_with_their_size_as_value():
    tables = [(row.broker, row.kind, row.value) for row in rows_of(SMALL, Detail.ALL) if row.event == "table"]
    assert tables == [("a.0", "clt", 1.0), ("a.1", "clt", 1.0), ("a.1", "prt", 1.0)]


def test_in_virtual_time_matching_and_selection_take_what_the_profile_says():
    rows = RowList()
    run_scenario(scenario_from(SMALL), profile=PAPER, sinks=[rows])
    matched = [row for row in rows.rows if row.match_us is not None]
    assert [(row.broker, row.match_us, row.select_us) for row in matched] == [("a.0", 20.0, 5.0), ("a.1", 20.1, 5.0)]
    assert all(row.event == "receive" and row.kind == "publication" for row in matched)


def test_rerouted_copies_show_their_civ():
    rows = RowList()
    run_scenario(load_scenario(EXAMPLES / "fig7b.toml"), sinks=[rows])
    carried = [(row.broker, row.peer, row.civ) for row in rows.rows if row.event == "send" and row.civ]
    assert carried == [("b.3", "b.1", "0001"), ("b.1", "c.1", "0001")]


def test_a_trace_for_an_audit_tells_what_was_issued_and_ends_with_totals():
    scenario = load_scenario(EXAMPLES / "market.toml")
    sink = RowList()
    lean = run_scenario(scenario, detail=Detail.DELIVERIES, keep=False, sinks=[sink], run_id="mine")
    full = run_scenario(scenario)
    assert {row.run_id for row in sink.rows} == {"mine"}
    received = [row for row in sink.rows if row.event == "receive"]
    assert {row.link for row in received} == {"client"}
    assert [row.publication for row in received if row.kind == "publication"] == [0, *range(2, 10)]
    delivered = [(row.publication, row.client) for row in sink.rows if row.event == "deliver"]
    assert delivered == [(each.publication, each.client) for each in full.recorder.deliveries]
    totals: dict[str | None, float] = {}
    for row in sink.rows:
        if row.event == "send":
            assert row.peer is None
            totals[row.kind] = totals.get(row.kind, 0) + (row.value or 0)
    assert totals == {kind: count for kind, count in full.messages().items() if count}
    sizes = {(row.broker, row.kind): row.value for row in sink.rows if row.event == "table"}
    expected = {
        (broker, table): size
        for broker, tables in full.to_json()["tables"].items()
        for table, size in tables.items()
        if size
    }
    # Without copies, the PRT has as many distinct subscriptions as entries.
    distinct = {(broker, DISTINCT_SUBSCRIPTIONS): size for (broker, table), size in expected.items() if table == "prt"}
    assert sizes == expected | distinct
    assert not lean.recorder.deliveries
    assert not lean.recorder.hops


@pytest.mark.parametrize("sink_type", [JsonLines, Parquet])
def test_deliveries_that_come_together_are_rows_like_any_other(tmp_path, sink_type):
    told = RowList()
    path = tmp_path / "trace"
    with sink_type(path) as sink:
        for number in range(3):
            clients = tuple(f"c{each}" for each in range(number))
            recipients = Recipients(clients, tuple(f"{client}/0" for client in clients))
            for each in (told, sink):
                each.deliver(
                    Deliveries(
                        run_id="r",
                        algorithm="static",
                        broker=f"a.{number}",
                        publication=number,
                        hop=2 + number,
                        published_ms=1.5 * number,
                        time_ms=4.25 + number,
                        recipients=recipients,
                    )
                )
    if sink_type is JsonLines:
        assert read_back(path) == told.rows
    else:
        assert [Row(**row) for row in pyarrow.parquet.read_table(path).to_pylist()] == told.rows
    assert [(row.publication, row.client, row.subscription) for row in told.rows] == [
        (1, "c0", "c0/0"),
        (2, "c0", "c0/0"),
        (2, "c1", "c1/0"),
    ]


def test_samples_tell_which_queues_hold_something_and_keep_no_run_alive():
    scenario = load_scenario(EXAMPLES / "market.toml")
    sink = RowList()
    sampled = run_scenario(scenario, detail=Detail.DELIVERIES, keep=False, sinks=[sink], sample_ms=10.0)
    plain = run_scenario(scenario, detail=Detail.DELIVERIES, keep=False, sinks=[RowList()])
    assert sampled.world.agenda.now_ms == plain.world.agenda.now_ms
    rows = [row for row in sink.rows if row.event == "window"]
    # The slow link of the example carries twenty per second, while publications come every 5 ms.
    assert {(row.broker, row.peer, row.link) for row in rows} == {("lon.0", "lon.1", "ilink")}
    lengths = [row.queue_length for row in rows]
    assert max(lengths) == 5
    assert lengths[-1] == 1
    assert len({round(row.time_ms % 10, 3) for row in rows}) == 1
