"""Object stores, with a local server that speaks S3; Spark itself would need jars for it that pip does not bring."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs
from pyspark.sql import SparkSession

from octopia.errors import InvalidData, UsageError
from octopia.pipeline.jobs import Workspace, run_sweep
from octopia.pipeline.object_stores import properties_of, variables_of
from octopia.pipeline.preflight import check_workers
from octopia.pipeline.storage import Storage
from octopia.pipeline.sweep import play_apart
from octopia.settings import Algorithm
from octopia.workloads.places import fingerprint, for_spark, locate
from octopia.workloads.runs import RunSpec
from octopia.workloads.simulated_run import finished_run, play_into
from octopia.workloads.workload import load_workload

BUCKET = "s3a://bucket"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The URL of a server that keeps objects in memory."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def store(endpoint: str, spark: SparkSession) -> Iterator[fs.FileSystem]:
    """The server as this process and the workers of the shared session see it, with a bucket."""
    known = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in known.items():
            patch.setenv(name, value)
            patch.setitem(spark.sparkContext.environment, name, value)
        fs.S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True).create_dir("bucket")
        yield locate(BUCKET)[0]


def files_in(store: fs.FileSystem, folder: str) -> list[str]:
    found = store.get_file_info(fs.FileSelector(f"bucket/{folder}", recursive=True, allow_not_found=True))
    return sorted(each.path.removeprefix(f"bucket/{folder}/") for each in found if each.is_file)


@pytest.fixture(scope="module")
def uploaded(store: fs.FileSystem, small_workload: str) -> str:
    """The small workload in the store."""
    local = fs.LocalFileSystem()
    store.create_dir("bucket/small")
    fs.copy_files(small_workload, "bucket/small", source_filesystem=local, destination_filesystem=store)
    return f"{BUCKET}/small"


# Places.


def test_both_names_of_s3_are_one_place_for_both(store: fs.FileSystem):
    assert locate("s3://bucket/a/b/") == locate("s3a://bucket/a/b") == (store, "bucket/a/b")
    assert for_spark("s3://bucket/a") == for_spark("s3a://bucket/a") == "s3a://bucket/a"
    assert for_spark("/a b/%20") == "file:/a b/%20"
    assert locate("file:///a%20b")[1] == "/a b"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("dbfs:/tables/x", "got dbfs:/tables/x: use its mount, /dbfs/tables/x"),
        ("hdfs:/x", "expected the library of Hadoop for hdfs:/x, got none"),
        ("hdfs://machine:8020/x", "set HADOOP_HOME and CLASSPATH"),
        (
            "wasb://x/y",
            "expected a path, or a URI such as s3a://bucket/folder or hdfs://machine/folder, got wasb://x/y",
        ),
    ],
)
def test_places_that_spark_and_pyarrow_do_not_share_are_refused(place, said, monkeypatch):
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    for attempt in (lambda: locate(place), lambda: Storage(place).check()):
        with pytest.raises(InvalidData) as caught:
            attempt()
        assert said in str(caught.value)


def test_settings_of_spark_and_variables_say_the_same():
    given = {
        "spark.hadoop.fs.s3a.access.key": "someone",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.endpoint": "store:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "here",
    }
    known = {
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": "http://store:9000",
        "AWS_REGION": "here",
    }
    assert variables_of(given) == known
    assert variables_of({"spark.hadoop.fs.s3a.endpoint": "store"}) == {"AWS_ENDPOINT_URL": "https://store"}
    assert properties_of({**known, "HOME": "/root"}) == {
        **{f"spark.executorEnv.{name}": value for name, value in known.items()},
        "spark.hadoop.fs.s3a.endpoint": "http://store:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "here",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert variables_of({}) == properties_of({}) == {}


# Storage.


def test_files_and_drafts_in_a_store(store: fs.FileSystem):
    storage = Storage(f"{BUCKET}/storage")
    storage.check()
    storage.write_json("deep/one.json", {"a": 1})
    storage.write_json("deep/one.json", {"a": 2})
    assert storage.read_json("deep/one.json") == {"a": 2}
    assert storage.names_in("deep") == ["one.json"]
    before = fingerprint(storage.path("deep"))
    with storage.draft("deep") as draft:
        for name in ("_SUCCESS", "part-0.parquet", "part-1.parquet"):
            storage.write_text(posixpath.join(draft, "truth", name), name)
        storage.write_text("deep/truth/old.parquet", "")
        storage.adopt(draft, "deep", ["truth", "other"])
    assert files_in(store, "storage") == [
        "deep/one.json",
        *(f"deep/truth/{name}" for name in ("_SUCCESS", "part-0.parquet", "part-1.parquet")),
    ]
    assert storage.has_table("deep/truth")
    assert fingerprint(storage.path("deep")) != before
    storage.remove("deep")
    assert not storage.exists("deep/one.json")
    with pytest.raises(UsageError, match="nobucket"):
        Storage("s3a://nobucket/x").check()


def test_the_mark_of_a_table_is_moved_last(store: fs.FileSystem, monkeypatch: pytest.MonkeyPatch):
    storage = Storage(f"{BUCKET}/broken")
    names = ("_SUCCESS", "a.parquet", "z.parquet")
    for name in names:
        storage.write_text(f"draft/t/{name}", name)

    class Failing:
        """A store that fails when the last file is due."""

        type_name, get_file_info, delete_dir = "s3", store.get_file_info, store.delete_dir

        def copy_file(self, source: str, target: str) -> None:
            if source.endswith("z.parquet"):
                raise OSError("lost")
            store.copy_file(source, target)

    monkeypatch.setattr(Storage, "_locate", lambda self, name: (Failing(), locate(self.path(name))[1]))
    with pytest.raises(OSError, match="lost"):
        storage.adopt("draft", "", ["t"])
    assert not storage.has_table("t")


# Runs.


def test_a_workload_in_a_store_is_read(uploaded: str, small_workload: str):
    here, there = load_workload(small_workload), load_workload(uploaded)
    assert there.subscriptions == here.subscriptions
    assert list(there.timed(20)) == list(here.timed(20))


def test_a_sweep_finishes_in_a_store_and_is_not_repeated(workspace: Workspace, store, uploaded, tmp_path: Path):
    sweep = f"{BUCKET}/sweep"
    runs = [RunSpec(workload=uploaded, run_id=each, algorithm=each, first=20) for each in (Algorithm.STATIC, "dynamic")]
    # A run that was interrupted between its two files.
    Storage(sweep).write_text("traces/dynamic/trace.parquet", "half of")
    assert finished_run(sweep, "dynamic") is None
    outcomes, before = run_sweep(workspace, runs, sweep)
    assert (before, [(each.run_id, each.error) for each in outcomes]) == (0, [("static", ""), ("dynamic", "")])
    assert files_in(store, "sweep/traces") == [
        f"{run}/{name}" for run in ("dynamic", "static") for name in ("run.json", "trace.parquet")
    ]
    play_into(runs[0], tmp_path)
    with store.open_input_file("bucket/sweep/traces/static/trace.parquet") as file:
        assert pq.read_table(file) == pq.read_table(tmp_path / "trace.parquet")
    assert run_sweep(workspace, runs, sweep) == ([], 2)


def test_a_run_that_cannot_be_written_is_reported(workspace: Workspace, uploaded: str):
    run = RunSpec(workload=uploaded, run_id="nowhere", first=5)
    with pytest.raises(UsageError, match="expected a folder that can be written, got s3a://nobucket/sweep"):
        run_sweep(workspace, [run], "s3a://nobucket/sweep")
    outcome = play_apart(run, "s3a://nobucket/sweep")
    assert outcome.error.startswith("expected to write into s3a://nobucket/sweep, got: ")


def test_without_jars_spark_is_said_to_need_them(spark: SparkSession, store: fs.FileSystem):
    with pytest.raises(UsageError) as caught:
        check_workers(spark, Storage(f"{BUCKET}/root"))
    assert str(caught.value).startswith(
        f"expected Spark to read the storage {BUCKET}/root, got: Spark has no jars for s3a: name hadoop-aws"
    )
    assert files_in(store, "root") == []
