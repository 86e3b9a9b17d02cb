"""Rows, their tables and their CSV files."""

import dataclasses
from pathlib import Path

import msgspec
import pytest
from socket_rows import socket_row

from octopia.errors import InvalidData
from octopia.experiments.audits import AuditRow
from octopia.experiments.paper.csv_tables import read_csv, read_tables, write_csv, write_tables
from octopia.experiments.paper.names import ALGORITHMS, System
from octopia.experiments.paper.rows import (
    TABLES,
    BurstRow,
    CostRow,
    DeliveryRow,
    PublisherRow,
    SensitivityRow,
    SequenceRow,
    SubscriberRow,
    Tables,
    key_of,
    side_of,
    tables_of,
)
from octopia.experiments.sockets.rows import CpuSupply

OCTOPIA, TID = System
STATIC, DYNAMIC, TID_STATIC, TID_DYNAMIC = ALGORITHMS

SOCKETS = socket_row()
FULL = Tables(
    (PublisherRow(100, TID, 1, 100, 2.5, 100.0, 21_700, 7_300, 0.746544),),
    (SubscriberRow(1_000, OCTOPIA, 1, 1_000, 3.25, 250.5, 15_000, 14_000),),
    (DeliveryRow(1_000, STATIC, 1, 10_000, 20_000, 1.5, 4_000),),
    (CostRow(1_000, TID_DYNAMIC, 500, 12.5, 3.0, 80.0, 20.5),),
    (
        BurstRow(100_000, DYNAMIC, 1, 150_000, 40_000_000, 900.0, 0.51, 180_000.0, 12.5, 5_000_000, 90_000.0, 61.5),
        BurstRow(100_000, STATIC, 1, 150_000, 40_000_000, 950.0, 0.48, None, 20.0, 5_000_000, None, 60.0),
    ),
    (SequenceRow(100_000, DYNAMIC, 1, 0, 12.5, 100.0),),
    (SOCKETS,),
    (SensitivityRow("link_delay_ms", "0.3", "delay, of TID", '"more"'),),
    (AuditRow("burst-1", 40_000_000, 0, 0, 0),),
)


def written(tables: Tables, folder: Path) -> list[bytes]:
    write_tables(tables, folder)
    return [(folder / f"{name}.csv").read_bytes() for name in TABLES.values()]


def test_tables_are_read_back_with_their_types(tmp_path: Path):
    write_tables(FULL, tmp_path / "new")
    found = read_tables(tmp_path / "new")
    assert found == FULL
    assert (found.publishers[0].system, found.delivery[0].algorithm, found.sockets[0].case) == (
        TID,
        STATIC,
        "slow-alinks",
    )
    assert found.delivery[0].algorithm is STATIC
    assert found.sockets[0].processors is CpuSupply.ENOUGH


def test_tables_survive_json():
    assert msgspec.convert(msgspec.to_builtins(FULL), Tables) == FULL


def test_the_same_tables_give_the_same_bytes(tmp_path: Path):
    first = written(FULL, tmp_path / "a")
    assert first == written(FULL, tmp_path / "b")
    assert first[4].splitlines()[2] == (b"100000,static,1,150000,40000000,950.0,0.48,,20.0,5000000,,60.0")


def test_floats_are_rounded_to_six_places(tmp_path: Path):
    path = tmp_path / "costs.csv"
    write_csv(path, CostRow, [CostRow(1, STATIC, 1, 1 / 3, 0.1 + 0.2, 1e-9, 4.0)])
    assert path.read_text().splitlines()[1] == "1,static,1,0.333333,0.3,0.0,4.0"


def test_a_study_that_was_not_run_is_an_empty_table(tmp_path: Path):
    write_tables(Tables(publishers=FULL.publishers), tmp_path)
    assert read_tables(tmp_path) == Tables(publishers=FULL.publishers)
    assert read_tables(tmp_path / "nothing") == Tables()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a table in"),
        ("subscribers,algorithm\n", "expected the columns subscribers, algorithm, publications"),
        ("{header}\n1,static\n", "expected a row of CostRow at .*costs.csv:2"),
        ("{header}\n1,static,1,1.0,1.0,1.0,1.0\n1,static,x,1.0,1.0,1.0,1.0\n", "costs.csv:3, got: Expected `int`"),
        ("{header}\n1,static,1,,1.0,1.0,1.0\n", "costs.csv:2, got: Expected `float`"),
        ("{header}\n1,TID,1,1.0,1.0,1.0,1.0\n", "costs.csv:2, got: Invalid enum value 'TID'"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, text: str, expected: str):
    path = tmp_path / "costs.csv"
    header = "subscribers,algorithm,publications,match_us,select_us,select_congested_us,visits_each"
    path.write_text(text.format(header=header))
    with pytest.raises(InvalidData, match=expected):
        read_csv(path, CostRow)


def test_rows_are_compared_by_side_and_key():
    rows = [*FULL.publishers, *FULL.subscribers, *FULL.delivery, *FULL.costs, *FULL.bursts[:1], *FULL.sequences]
    assert [side_of(row) for row in rows] == [TID, OCTOPIA, STATIC, TID_DYNAMIC, DYNAMIC, DYNAMIC]
    assert [key_of(row) for row in rows] == [(100, 1), (1_000, 1), (1_000, 1), (1_000,), (100_000, 1), (100_000, 1)]


def test_dynamic_routing_selects_paths_when_links_are_congested():
    assert CostRow(1, TID_DYNAMIC, 1, 0.0, 3.0, 80.0, 1.0).path_selection_us == 80.0
    assert CostRow(1, STATIC, 1, 0.0, 3.0, 80.0, 1.0).path_selection_us == 3.0


def burst(rate: int, seed: int, delay_ms: float = 1.0) -> BurstRow:
    return BurstRow(rate, STATIC, seed, 150, 10, delay_ms, 0.5, 1.0, 1.0, 10, 1.0, 1.0)


def test_rows_find_their_tables():
    assert tables_of(reversed(list(FULL))) == dataclasses.replace(FULL, bursts=FULL.bursts[::-1])


def test_a_value_that_is_run_again_replaces_its_rows():
    rows = (burst(100, 0), burst(100, 1), burst(200, 0))
    before = Tables(bursts=rows, sequences=(SequenceRow(100, STATIC, 0, 0, 1.0, 1.0),))
    now = (burst(100, 0, 9.0), burst(300, 0))
    after = before.updated(now)
    assert after.bursts == (burst(200, 0), *now)
    assert after.sequences == before.sequences


def test_rows_without_a_size_are_replaced_by_quantity_study_and_run():
    sensitivity = FULL.sensitivity[0]
    other = dataclasses.replace(sensitivity, quantity="queues")
    changed = dataclasses.replace(sensitivity, result="2% more")
    assert Tables(sensitivity=(sensitivity, other)).updated([changed]).sensitivity == (other, changed)
    larger = dataclasses.replace(SOCKETS, brokers=56)
    again = dataclasses.replace(SOCKETS, algorithm=DYNAMIC)
    assert Tables(sockets=(SOCKETS, larger)).updated([again]).sockets == (larger, again)
    faulty, clean = AuditRow("one", 5, 1, 0, 0), AuditRow("two", 5, 0, 0, 0)
    mended = dataclasses.replace(faulty, missing=0)
    assert Tables(audits=(faulty, clean)).updated([mended]).audits == (clean, mended)


def test_an_audit_knows_what_was_owed():
    assert AuditRow("one", 5, 0, 0, 0).is_clean
    faulty = AuditRow("one", 1_005, 3, 2, 1)
    assert not faulty.is_clean
    assert faulty.owed == 1_005
    assert AuditRow("one", 1_000, 5, 0, 0).owed == 1_005
    assert faulty.faults == "3 missing, 2 unwanted, 1 duplicate"
