from pathlib import Path

import pytest

from octopia.errors import InvalidData
from octopia.experiments.paper.rows import (
    BurstRow,
    CostRow,
    DeliveryRow,
    PublisherRow,
    RealRow,
    SensitivityRow,
    SequenceRow,
    SubscriberRow,
    Tables,
    key_of,
    read_csv,
    read_tables,
    side_of,
    write_csv,
    write_tables,
)

FULL = Tables(
    (PublisherRow(100, "TID", 1, 100, 2.5, 100.0, 21_700, 7_300, 0.746544),),
    (SubscriberRow(1_000, "OctopiA", 1, 1_000, 3.25, 250.5, 15_000, 14_000),),
    (DeliveryRow(1_000, "static", 1, 10_000, 20_000, 1.5, 4_000),),
    (CostRow(1_000, "tid-dynamic", 500, 12.5, 3.0, 80.0, 20.5),),
    (
        BurstRow(100_000, "dynamic", 1, 150_000, 40_000_000, 900.0, 0.51, 180_000.0, 12.5, 5_000_000, 90_000.0, 61.5),
        BurstRow(100_000, "static", 1, 150_000, 40_000_000, 950.0, 0.48, None, 20.0, 5_000_000, None, 60.0),
    ),
    (SequenceRow(100_000, "dynamic", 1, 0, 12.5, 100.0),),
    (RealRow("burst", "static", 0, 11_000, 88_000, 3.0, 52.25, 0.75, 90_000, 48.5, 90_000, 0.5, "enough"),),
    (SensitivityRow("link_delay_ms", "0.3", "delay, of TID", '"more"'),),
)


def test_what_is_written_is_read_again(tmp_path: Path):
    paths = write_tables(FULL, tmp_path / "new")
    assert [path.name for path in paths][:2] == ["publishers.csv", "subscribers.csv"]
    assert read_tables(tmp_path / "new") == FULL


def test_the_same_tables_give_the_same_bytes(tmp_path: Path):
    first = [path.read_bytes() for path in write_tables(FULL, tmp_path / "a")]
    assert first == [path.read_bytes() for path in write_tables(FULL, tmp_path / "b")]
    assert first[4].splitlines()[2] == (b"100000,static,1,150000,40000000,950.0,0.48,,20.0,5000000,,60.0")


def test_floats_are_rounded_to_six_places(tmp_path: Path):
    path = tmp_path / "costs.csv"
    write_csv(path, CostRow, [CostRow(1, "static", 1, 1 / 3, 0.1 + 0.2, 1e-9, 4.0)])
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
        ("{header}\n1,static,1,1.0,1.0,1.0,1.0\n1,static,x,1.0,1.0,1.0,1.0\n", "costs.csv:3, got: invalid literal"),
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
    assert [side_of(row) for row in rows] == ["TID", "OctopiA", "static", "tid-dynamic", "dynamic", "dynamic"]
    assert [key_of(row) for row in rows] == [(100, 1), (1_000, 1), (1_000, 1), (1_000,), (100_000, 1), (100_000, 1)]


def test_dynamic_routing_selects_paths_when_links_are_congested():
    assert CostRow(1, "tid-dynamic", 1, 0.0, 3.0, 80.0, 1.0).path_selection_us == 80.0
    assert CostRow(1, "static", 1, 0.0, 3.0, 80.0, 1.0).path_selection_us == 3.0
