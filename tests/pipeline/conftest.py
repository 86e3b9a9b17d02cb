"""One Spark session for all tests of the pipeline, on a machine that seems to have no Java.

All these tests run in the same process, so that there is one Java virtual machine to start.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from small import SMALL

from octopia.pipeline.jobs import Bench, Market, find_truth, make_workload
from octopia.pipeline.progress import Stages
from octopia.pipeline.session import make_session
from octopia.pipeline.settings import PipelineSettings
from octopia.pipeline.storage import Storage


@pytest.fixture(scope="session")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take Java away: no JAVA_HOME, and a PATH of everything but it."""
    folder = tmp_path_factory.mktemp("path-without-java")
    for place in os.environ["PATH"].split(os.pathsep):
        for command in Path(place).glob("*"):
            link = folder / command.name
            if not command.name.startswith("java") and not link.is_symlink():
                link.symlink_to(command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))
        patch.delenv("JAVA_HOME", raising=False)
        yield


@pytest.fixture(scope="session")
def spark(without_java: None) -> Iterator[SparkSession]:
    """A small session that starts fast."""
    quick = "-XX:TieredStopAtLevel=1"
    settings = PipelineSettings(
        master="local[2]",
        partitions=2,
        spark={"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": quick},
    )
    session = make_session(settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """What jobs work with; what they show goes nowhere."""
    screen = Console(file=io.StringIO())
    return Bench(spark, Storage(str(tmp_path_factory.mktemp("storage"))), Stages(spark, screen))


@pytest.fixture(scope="session")
def small_workload(bench: Bench) -> str:
    """The folder of a small workload with its truth; tests only read it."""
    make_workload(bench, "small", SMALL, Market(symbols=40, days=20))
    find_truth(bench, "small")
    return bench.storage.absolute("small")
