"""One Spark session for all tests of the pipeline in a process, with Java hidden from PATH and JAVA_HOME."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from small import SMALL
from typer.testing import CliRunner

import octopia.pipeline.spark_session
from octopia.cli import app
from octopia.errors import OctopiaError
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.jobs import Market, Workspace, find_truth, make_workload
from octopia.pipeline.progress import Stages
from octopia.pipeline.spark_session import make_session
from octopia.pipeline.storage import Storage


@pytest.fixture(scope="session")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide Java: no JAVA_HOME, and a PATH with all other commands."""
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


@dataclasses.dataclass(frozen=True)
class Started:
    """A session, and its output on standard error up to the end of the first job."""

    session: SparkSession
    said: str


@pytest.fixture(scope="session")
def started(without_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A small session that starts fast; standard error of Java and of the Python workers goes to a file."""
    # For code that runs for seconds, optimising compilation, verification and saving memory do not pay off.
    quick = (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=200m -Xms1g -Xmn600m "
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    )
    settings = PipelineSettings(
        master="local[2,3]",
        partitions=2,
        spark={"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": quick},
    )
    errors = tmp_path_factory.mktemp("spark") / "stderr"
    with standard_error_into(errors):
        session = make_session(settings)
    assert session.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10
    yield Started(session, errors.read_text())
    session.stop()


@contextlib.contextmanager
def standard_error_into(path: Path) -> Iterator[None]:
    """Redirect standard error of all processes that are started within the block."""
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture(scope="session")
def spark(started: Started) -> SparkSession:
    """The session that all tests share."""
    return started.session


@pytest.fixture(scope="session")
def said_at_start(started: Started) -> str:
    """The output on standard error up to the end of the first job."""
    return started.said


@pytest.fixture(scope="session")
def workspace(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace whose progress display goes nowhere."""
    screen = Console(file=io.StringIO())
    return Workspace(spark, Storage(str(tmp_path_factory.mktemp("storage"))), Stages(spark, screen))


@pytest.fixture(scope="session")
def small_workload(workspace: Workspace) -> str:
    """The folder of a small workload with its truth; tests only read it."""
    make_workload(workspace, "small", SMALL, Market(symbols=40, days=20))
    find_truth(workspace, "small")
    return workspace.storage.absolute("small")


@pytest.fixture
def run_command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command in the shared session, and return its output; errors are raised unchanged."""

    @contextlib.contextmanager
    def shared(*_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(octopia.pipeline.spark_session, "open_session", shared)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        if isinstance(result.exception, OctopiaError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    return run
