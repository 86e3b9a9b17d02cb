"""What Spark's errors look like to people: one sentence each, soon."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from processes import free_ports
from pyspark.sql import SparkSession

from octopia.errors import InvalidData, JobFailed, UsageError
from octopia.pipeline import spark_addresses
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.spark_addresses import addresses_of
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.pipeline.spark_session import make_session
from octopia.pipeline.storage import Storage

Batches = Iterator[pa.RecordBatch]


def message(act: Callable[[], object]) -> str:
    with pytest.raises(SPARK_ERRORS) as caught:
        act()
    said = spark_message(caught.value)
    assert "\n" not in said
    return said


@pytest.fixture
def dead_port() -> int:
    """A port on which nobody listens."""
    [port] = free_ports(1)
    return port


@pytest.mark.parametrize("kind", ["remote", "master"])
def test_a_spark_that_does_not_answer_is_said_at_once(kind: str, dead_port: int):
    url = f"{'sc' if kind == 'remote' else 'spark'}://127.0.0.1:{dead_port}"
    begin = time.perf_counter()
    with pytest.raises(JobFailed) as caught:
        make_session(PipelineSettings(**{kind: url}))
    assert time.perf_counter() - begin < 10
    assert str(caught.value) == (f"expected Spark at {url}, got no answer: 127.0.0.1:{dead_port}: Connection refused")


@contextlib.contextmanager
def silent_ports(count: int) -> Iterator[list[int]]:
    """Yield ports at which the system answers no connection, since as many wait as may."""
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for _ in range(count):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            ports.append(listener.getsockname()[1])
            for _ in range(2):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", ports[-1]))
        yield ports


def test_masters_that_are_silent_share_one_time_limit(monkeypatch: pytest.MonkeyPatch, dead_port: int):
    assert spark_addresses.ANSWER_S < 10
    monkeypatch.setattr(spark_addresses, "ANSWER_S", 0.5)
    with silent_ports(3) as ports, socket.create_server(("127.0.0.1", 0)) as listener:
        silent = ",".join(f"127.0.0.1:{port}" for port in ports)
        begin = time.perf_counter()
        with pytest.raises(JobFailed, match=rf"got no answer: 127\.0\.0\.1:{ports[0]}: timed out"):
            spark_addresses.check_address(PipelineSettings(master=f"spark://{silent},127.0.0.1:{dead_port}"))
        assert time.perf_counter() - begin < 3 * 0.5  # One after the other would take that long.
        # One master that answers is enough, wherever it stands.
        answering = listener.getsockname()[1]
        spark_addresses.check_address(PipelineSettings(master=f"spark://{silent},127.0.0.1:{answering}"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (PipelineSettings(master="spark//x"), "expected a master such as local[2], spark://machine:7077 or yarn"),
        (PipelineSettings(master="local[2"), "got local[2"),
        (PipelineSettings(remote="spark://x:1"), "expected a remote such as sc://machine:15002, got spark://x:1"),
        (PipelineSettings(master="spark://x:port"), "expected a machine and a port in spark://x:port"),
    ],
)
def test_an_address_that_is_none_is_refused(settings: PipelineSettings, said: str):
    with pytest.raises(UsageError) as caught:
        make_session(settings)
    assert said in str(caught.value)


def test_addresses_of_urls():
    assert addresses_of("spark://a:1,b") == [("a", 1), ("b", 7077)]
    assert addresses_of("sc://a/;token=x:y") == [("a", 15002)]
    assert addresses_of("sc://[::1]:7;x=1") == [("::1", 7)]
    assert addresses_of("k8s://https://a:6443") == [("a", 6443)]
    assert addresses_of("k8s://a") == [("a", 443)]
    assert addresses_of("yarn") == addresses_of("local[2]") == addresses_of("") == []


def test_of_a_traceback_the_line_with_the_exception_is_shown(spark: SparkSession):
    def fail(batches: Batches) -> Batches:
        try:
            raise KeyError("earlier")
        except KeyError as error:
            raise RuntimeError("what went wrong\nand more of it") from error
        yield from batches

    assert message(spark.range(1).mapInArrow(fail, "id long").collect) == "RuntimeError: what went wrong"


def test_a_worker_that_dies_is_said(spark: SparkSession):
    def die(batches: Batches) -> Batches:
        os._exit(3)
        yield from batches

    said = message(spark.range(1).mapInArrow(die, "id long").collect)
    assert said.startswith("Python worker exited unexpectedly")


def test_files_that_cannot_be_read_are_named(spark: SparkSession, tmp_path: Path):
    (tmp_path / "not.parquet").write_text("no Parquet at all")
    because = "cannot be read: it is not Parquet, or it is damaged"
    assert message(lambda: spark.read.parquet(str(tmp_path / "not.parquet"))) == (
        f"the file {tmp_path}/not.parquet {because}"
    )
    spark.range(100_000).coalesce(1).write.parquet(str(tmp_path / "table"))
    (part,) = (tmp_path / "table").glob("*.parquet")
    content = bytearray(part.read_bytes())
    content[1000 : len(content) // 2] = b"x" * (len(content) // 2 - 1000)
    part.write_bytes(content)
    (tmp_path / "table" / f".{part.name}.crc").unlink()
    # The footer is intact, so the damage is found when rows are read.
    with pytest.raises(InvalidData) as caught:
        Storage(str(tmp_path)).write(spark.read.parquet(str(tmp_path / "table")), "copy")
    assert str(caught.value) == f"the file {part} {because}"


def test_places_that_spark_cannot_reach(spark: SparkSession):
    assert message(lambda: spark.read.text("nosuch://x/y")).startswith("No FileSystem for scheme")
    said = message(lambda: spark.read.parquet("s3a://bucket/table"))
    assert said.startswith("Spark has no jars for s3a: name hadoop-aws")
