"""The check of workers; ``test_standalone`` runs it on workers that have another Python."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from octopia.errors import MissingDependency, UsageError
from octopia.pipeline import preflight
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.preflight import check_workers
from octopia.pipeline.spark_session import spark_properties, worker_python
from octopia.pipeline.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def complaint(spark: SparkSession, storage: Storage) -> str:
    with pytest.raises((MissingDependency, UsageError)) as caught:
        check_workers(spark, storage)
    assert storage.names_in("") == []
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_good_workers_pass_and_nothing_is_left(spark: SparkSession, storage: Storage):
    check_workers(spark, storage)
    assert storage.names_in("") == []


def test_a_missing_package_is_named(spark, storage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preflight, "_NEEDED", ("nosuchpackage",))
    said = complaint(spark, storage)
    assert re.search(rf"got: {re.escape(sys.executable)} on \S+: no nosuchpackage", said)
    assert said.endswith("name another Python as python in [pipeline] of octopia.toml")


def test_another_version_is_named(spark, storage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preflight, "_version", lambda: "9.9")
    assert re.search(r"expected Python \S+, octopia 9\.9 and .* got: .*: octopia 0\.", complaint(spark, storage))


def test_storage_that_workers_do_not_see_is_named(spark, storage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Storage, "absolute", lambda self, name: f"/nowhere/{name}")
    assert "no access to the storage (" in complaint(spark, storage)


def test_storage_that_spark_does_not_see_is_named(spark, storage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Storage, "for_spark", lambda self, name: f"file:{self.path(name)}.unseen")
    assert complaint(spark, storage).startswith(
        f"expected Spark to read the storage {storage.root}, got: Path does not"
    )


def test_workers_elsewhere_have_the_python_that_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/from/environment")
    far = PipelineSettings(master="spark://far:7077")
    assert worker_python(PipelineSettings(python="/mine")) == sys.executable
    assert worker_python(PipelineSettings(master="spark://far:7077", python="/mine")) == "/mine"
    assert worker_python(far) == "/from/environment"
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert worker_python(far) == sys.executable


def test_the_cores_of_this_machine_are_no_measure_for_others():
    assert "spark.sql.shuffle.partitions" in spark_properties(PipelineSettings())
    assert "spark.sql.shuffle.partitions" not in spark_properties(PipelineSettings(master="spark://far:7077"))
    said = spark_properties(PipelineSettings(remote="sc://far:15002", partitions=50))
    assert said["spark.sql.shuffle.partitions"] == "50"
