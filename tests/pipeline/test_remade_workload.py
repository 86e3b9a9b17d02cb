"""Workloads that are made again in the same folder, within one session whose workers keep what they have read."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from small import SMALL

from octopia.errors import InvalidData, UsageError
from octopia.pipeline import generation
from octopia.pipeline.jobs import Market, Workspace, digests, find_truth, make_workload, run_audit, run_sweep
from octopia.pipeline.spec import Meaning, WorkloadSpec
from octopia.pipeline.storage import Storage
from octopia.settings import Algorithm
from octopia.workloads.runs import RunSpec
from octopia.workloads.workload import load_workload

FEW = dataclasses.replace(SMALL, publishers=4, publications=10, subscribers=30, burst=None)


def test_workers_play_what_was_made_last(workspace: Workspace):
    folder, place, loaded = "remade", workspace.storage.absolute("remade"), []
    for seed in (1, 2):
        make_workload(workspace, folder, dataclasses.replace(FEW, seed=seed), Market(symbols=10, days=10))
        run = RunSpec(workload=place, run_id=f"seed-{seed}", algorithm=Algorithm.STATIC)
        outcomes, _ = run_sweep(workspace, [run], f"remade-{seed}")
        assert [each.error for each in outcomes] == [""]
        loaded.append(load_workload(place))
    assert loaded[0].subscriptions != loaded[1].subscriptions
    assert load_workload(place) is loaded[1]
    find_truth(workspace, folder)
    (row,) = run_audit(workspace, "remade-2", folder)
    assert (row["publications"], row["missing"], row["unwanted"], row["duplicates"]) == (40, 0, 0, 0)


def test_workers_draw_from_the_tables_that_were_written_last(spark: SparkSession, workspace, small_workload, tmp_path):
    storage = Storage(str(tmp_path))
    offers, pool = (pd.read_parquet(f"{small_workload}/{name}") for name in ("offers", "pool"))
    by_publishers = dataclasses.replace(SMALL, burst=None, meaning=Meaning.PUBLISHERS)

    def drawn(spec: WorkloadSpec) -> list[str]:
        found = generation.subscriptions(spark, spec, storage.path("offers"), storage.path("pool"))
        return [row.filter for row in found.orderBy("number").collect()]

    seen = []
    for volume in (7, 8):
        offers["max_volume"], pool["volume"] = volume, volume
        storage.write(spark.createDataFrame(offers), "offers")
        storage.write(spark.createDataFrame(pool), "pool")
        seen += [drawn(dataclasses.replace(SMALL, burst=None)), drawn(by_publishers)]
    assert all("volume BETWEEN 7 AND 7" in text for text in seen[0])
    assert all("volume BETWEEN 8 AND 8" in text for text in seen[2])
    assert all(text.endswith(" AND 7") for text in seen[1])
    assert all(text.endswith(" AND 8") for text in seen[3])


def test_a_workload_with_other_rows_has_other_digests(workspace: Workspace, small_workload: str, tmp_path: Path):
    """The spec alone does not tell workloads apart: it names a file of prices, whose contents may change."""
    other = Path(shutil.copytree(small_workload, tmp_path / "other"))
    before = workspace.storage.read_json("small/workload.json")["digests"]
    rows = pd.read_parquet(other / "publications").sample(frac=1.0, random_state=1)
    shutil.rmtree(other / "publications")
    for price, is_same in ((None, True), (0.01, False)):
        if price is not None:
            rows.iloc[5, rows.columns.get_loc("close")] = price
        workspace.storage.write(workspace.spark.createDataFrame(rows), str(other / "publications"))
        after = digests(workspace, str(other))
        assert (after["publications"] == before["publications"]) is is_same
        assert {**after, "publications": ""} == {**before, "publications": ""}


# An earlier workload stays until the new one is complete.


def listing(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture
def finished(small_workload: str, tmp_path: Path) -> Path:
    """A copy of the small workload, with its truth."""
    return Path(shutil.copytree(small_workload, tmp_path / "finished"))


def test_a_wrong_path_of_bars_changes_nothing(run_command, finished: Path):
    before = listing(finished)
    for command in ("workload", "ingest"):
        with pytest.raises(InvalidData, match=r"nope\.parquet"):
            run_command("data", command, str(finished), "--bars", "/nope.parquet")
        assert listing(finished) == before
        assert not list(finished.glob(".draft-*"))


def test_a_failure_half_way_changes_nothing_and_leaves_no_draft(workspace: Workspace, finished: Path):
    before = listing(finished)
    (finished / ".draft-of-a-killed-process").mkdir()
    # More publishers than symbols: this is found when bars have already been made.
    with pytest.raises(UsageError, match="at least one symbol"):
        make_workload(workspace, str(finished), FEW, Market(symbols=2, days=2))
    assert listing(finished) == before
    assert not list(finished.glob(".draft-*"))


def test_a_workload_may_be_made_of_its_own_bars(workspace: Workspace, finished: Path):
    bars = pd.read_parquet(finished / "bars")
    make_workload(workspace, str(finished), FEW, Market(path=str(finished / "bars")))
    pd.testing.assert_frame_equal(*(_sorted(each) for each in (bars, pd.read_parquet(finished / "bars"))))
    assert workspace.storage.read_json(str(finished / "workload.json"))["publications"] == 40
    # The truth was that of other publications.
    assert not (finished / "truth").exists()


def _sorted(bars: pd.DataFrame) -> pd.DataFrame:
    return bars.sort_values(["symbol", "date"], ignore_index=True)
