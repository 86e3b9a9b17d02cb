from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from octopia.errors import InvalidData, JobFailed, OctopiaError, UsageError
from octopia.pipeline.schemas import MATCHES
from octopia.pipeline.storage import Storage


def test_tables_are_read_once_they_are_finished(spark: SparkSession, tmp_path: Path):
    storage = Storage(str(tmp_path / "root"))
    frame = spark.range(3).selectExpr("cast(id as int) as subscription", "id as publication", "'x' as more")
    with pytest.raises(InvalidData, match=r"expected a finished table at .*root/truth, got none"):
        storage.read(spark, "truth")
    storage.write(frame, "truth")
    storage.write(frame.limit(2), "truth")
    assert storage.has_table("truth")
    found = storage.read(spark, "truth", MATCHES)
    assert found.dtypes == [("publication", "bigint"), ("subscription", "bigint")]
    assert sorted(map(tuple, found.collect())) == [(0, 0), (1, 1)]
    assert storage.count_rows("truth") == 2
    storage.write(frame.drop("publication"), "half")
    with pytest.raises(InvalidData, match=r"got subscription, more: publication is missing"):
        storage.read(spark, "half", MATCHES)
    (tmp_path / "root" / "truth" / "_SUCCESS").unlink()
    assert not storage.has_table("truth")
    for attempt in (lambda: storage.read(spark, "truth"), lambda: storage.count_rows("truth")):
        with pytest.raises(InvalidData, match="was it made"):
            attempt()


def test_small_files_are_there_in_whole_or_not_at_all(tmp_path: Path):
    storage = Storage(str(tmp_path))
    storage.write_json("runs/one.json", {"a": 1})
    storage.write_json("runs/one.json", {"a": 2})
    assert storage.read_json("runs/one.json") == {"a": 2}
    with pytest.raises(TypeError):
        storage.write_json("runs/one.json", {"a": object()})
    assert storage.read_json("runs/one.json") == {"a": 2}
    storage.write_json(str(tmp_path / "absolute.json"), {})
    assert storage.exists("absolute.json")
    assert not storage.exists("nothing.json")
    assert storage.names_in("runs")[0] == "one.json"
    storage.remove("runs")
    storage.remove("runs")
    assert storage.names_in("runs") == []
    assert storage.names_in("") == ["absolute.json"]


def test_files_that_are_no_json_are_refused(tmp_path: Path):
    storage = Storage(str(tmp_path))
    with pytest.raises(InvalidData, match="got none"):
        storage.read_json("x.json")
    for text in ("{", "[1]", "[[1, 2]]", "3"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(InvalidData, match=r"expected (a )?JSON"):
            storage.read_json("x.json")


def test_a_file_as_root_is_refused(spark: SparkSession, tmp_path: Path):
    (tmp_path / "file").write_text("")
    storage = Storage(str(tmp_path / "file"))
    assert not storage.exists("x")
    with pytest.raises(UsageError, match="expected a place to write"):
        storage.write_json("x.json", {})
    with pytest.raises(OctopiaError):
        storage.read_json("x.json")
    with pytest.raises(UsageError, match="expected a folder"):
        storage.names_in("")
    with pytest.raises(JobFailed, match="expected to write the table"):
        storage.write(spark.range(1), "table")


def test_an_unknown_kind_of_place_is_refused(spark: SparkSession):
    storage = Storage("nosuch://x")
    for attempt in (
        lambda: storage.exists("x"),
        lambda: storage.read_json("x"),
        lambda: storage.write_json("x", {}),
        lambda: storage.names_in("x"),
        lambda: storage.read(spark, "x"),
        lambda: storage.write(spark.range(1), "x"),
    ):
        with pytest.raises(UsageError, match=r"expected a path, or a URI such as .* got nosuch://x"):
            attempt()
