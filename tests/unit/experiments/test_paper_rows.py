"""Rows, their tables and their CSV files."""

import dataclasses
import itertools
from pathlib import Path

import msgspec
import paper_rows as make
import pytest
from paper_rows import DYNAMIC, OCTOPIA, STATIC, TID, TID_DYNAMIC, TID_DYNAMIC_PER_HOP
from socket_rows import socket_row

from octopia.errors import InvalidData
from octopia.experiments.audits import AuditRow
from octopia.experiments.csv_rows import read_csv, write_csv
from octopia.experiments.paper.csv_tables import read_tables, write_tables
from octopia.experiments.paper.names import Contender, Model, System
from octopia.experiments.paper.rows import (
    TABLES,
    BurstRow,
    CostRow,
    DecisiveRow,
    LoadRow,
    SensitivityRow,
    Tables,
    key_of,
    side_of,
    tables_of,
)
from octopia.experiments.sockets.rows import CpuSupply
from octopia.pipeline.spec import HostKind
from octopia.settings import Algorithm, TidCopies

SOCKETS = socket_row()
FULL = Tables(
    (make.publishers(100, TID, advertisement_delay_ms=2.5, duplicate_share=0.746544),),
    (make.subscribers(1_000, OCTOPIA, subscription_delay_ms=3.25, prt_size_mean=250.5),),
    (make.delivery(1_000, STATIC, publication_delay_ms=1.5),),
    (CostRow(1_000, TID_DYNAMIC, 500, 12.5, 3.0, 80.0, 20.5),),
    (
        make.burst(DYNAMIC, 900.0, 180_000.0),
        make.burst(STATIC, 950.0, None, shrinking_ms=None, model=Model.BROKER_SENDER, host=HostKind.INNER),
    ),
    (make.sequence(DYNAMIC, 0, 12.5, 100.0),),
    (make.bound(304_000.0, 43_300.0),),
    (LoadRow(Model.LINKS, TID, 0, 1_000, 140.0, 120.5, 0.25),),
    (SOCKETS,),
    (SensitivityRow("link_delay_ms", "0.3", "delay, of TID", '"more"'),),
    (DecisiveRow("one per link", "races", HostKind.EDGE, "delay", "3% less"),),
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
    assert first[4].splitlines()[2] == (
        b"100000,broker-sender,inner,static,1,150000,10,950.0,0.8,0.48,5,950.0,0.1,0.05,,0.0,1.0,10.0,10000,,1.0"
    )


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
    assert [key_of(row) for row in rows] == [
        (100, 1, ""), (1_000, 1, ""), (1_000, 1, ""), (1_000, 0, ""), (100_000, 1, "edge"), (100_000, 1, "edge"),
    ]  # fmt: skip


def test_dynamic_routing_selects_paths_when_links_are_congested():
    assert CostRow(1, TID_DYNAMIC, 1, 0.0, 3.0, 80.0, 1.0).path_selection_us == 80.0
    assert CostRow(1, STATIC, 1, 0.0, 3.0, 80.0, 1.0).path_selection_us == 3.0


def burst(rate: int, seed: int, delay_ms: float = 1.0) -> BurstRow:
    return make.burst(STATIC, delay_ms, 1.0, rate_per_minute=rate, seed=seed)


def test_rows_find_their_tables():
    assert tables_of(reversed(list(FULL))) == dataclasses.replace(FULL, bursts=FULL.bursts[::-1])


def test_a_run_that_is_repeated_replaces_its_rows():
    rows = (burst(100, 0), burst(200, 0))
    before = Tables(bursts=rows, sequences=(make.sequence(STATIC, 0, 1.0, 1.0, rate_per_minute=100),))
    now = (burst(100, 0, 9.0), burst(300, 0))
    after = before.updated(now)
    assert after.bursts == (now[0], burst(200, 0), now[1])
    assert after.sequences == before.sequences
    longer = [make.sequence(STATIC, each, 2.0, 1.0, rate_per_minute=100) for each in range(3)]
    assert before.updated(longer).sequences == tuple(longer)
    assert before.updated(longer).updated(before.sequences).sequences == before.sequences


def test_parts_of_a_study_add_up_in_any_order():
    rows = [
        dataclasses.replace(burst(rate, seed), algorithm=algorithm, host=host)
        for rate, host, algorithm, seed in itertools.product((100, 200), HostKind, (STATIC, DYNAMIC), (0, 1))
    ]
    whole = Tables().updated(rows)
    assert sorted(map(str, whole.bursts)) == sorted(map(str, rows))
    for wanted in ("seed", "algorithm", "host", "rate_per_minute"):
        parts: dict[object, list[BurstRow]] = {}
        for row in rows:
            parts.setdefault(getattr(row, wanted), []).append(row)
        added = Tables()
        for part in reversed(parts.values()):
            added = added.updated(part)
        assert added == whole


def test_another_model_or_host_replaces_nothing():
    edge, inner = burst(100, 0), dataclasses.replace(burst(100, 0), host=HostKind.INNER)
    shared = dataclasses.replace(edge, model=Model.BROKER_SENDER)
    assert Tables(bursts=(edge,)).updated([inner, shared]).bursts == (inner, edge, shared)
    assert Tables(bursts=(edge, inner, shared)).hosts == (HostKind.INNER, HostKind.EDGE)
    assert Tables(bursts=(edge, inner, shared)).models == (Model.LINKS, Model.BROKER_SENDER)
    assert Tables(bursts=(edge, inner, shared)).under(Model.LINKS, HostKind.INNER).bursts == (inner,)


def test_contenders_are_algorithms_or_variants_of_one():
    assert [each.algorithm for each in Contender] == [*Algorithm, Algorithm.TID_DYNAMIC]
    assert Contender.of(Algorithm.TID_DYNAMIC, TidCopies.PER_HOP) is TID_DYNAMIC_PER_HOP
    assert all(Contender.of(each.algorithm, each.tid_copies) is each for each in Contender)
    assert [each for each in Contender if each.may_miss] == [TID_DYNAMIC_PER_HOP]
    assert [System.of(each) for each in Algorithm] == ["OctopiA", "OctopiA", "adaptive", "TID", "TID"]


def test_rows_without_a_size_are_replaced_by_quantity_study_and_run():
    sensitivity = FULL.sensitivity[0]
    other = dataclasses.replace(sensitivity, quantity="queues")
    changed = dataclasses.replace(sensitivity, result="2% more")
    assert Tables(sensitivity=(sensitivity, other)).updated([changed]).sensitivity == (changed, other)
    larger = dataclasses.replace(SOCKETS, brokers=56)
    again = dataclasses.replace(SOCKETS, algorithm=Algorithm.DYNAMIC)
    assert Tables(sockets=(SOCKETS, larger)).updated([again]).sockets == (again, larger)
    faulty, clean = AuditRow("one", 5, 1, 0, 0), AuditRow("two", 5, 0, 0, 0)
    mended = dataclasses.replace(faulty, missing=0)
    assert Tables(audits=(faulty, clean)).updated([mended]).audits == (mended, clean)


def test_an_audit_knows_what_was_owed():
    assert AuditRow("one", 5, 0, 0, 0).is_clean
    faulty = AuditRow("one", 1_005, 3, 2, 1)
    assert not faulty.is_clean
    assert faulty.owed == 1_005
    assert AuditRow("one", 1_000, 5, 0, 0).owed == 1_005
    assert faulty.faults == "3 missing, 2 unwanted, 1 duplicate"


def test_losses_of_a_variant_that_is_known_to_lose_are_no_fault():
    lossy = AuditRow("one", 990, 10, 0, 0, may_miss=True)
    assert (lossy.is_clean, lossy.missing_share) == (True, 0.01)
    assert not dataclasses.replace(lossy, duplicate=1).is_clean
    assert not dataclasses.replace(lossy, may_miss=False).is_clean


def test_ordinary_deliveries_have_a_delay_of_their_own():
    row = make.burst(STATIC, deliveries=10, burst_deliveries=4)
    mixed = dataclasses.replace(row, publication_delay_ms=11.0, burst_delay_ms=20.0)
    assert mixed.ordinary_delay_ms == 5.0
    assert dataclasses.replace(mixed, deliveries=4).ordinary_delay_ms is None
