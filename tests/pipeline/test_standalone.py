"""The pipeline on a standalone Spark: a master and a worker with executors of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from standalone_spark import standalone

pytestmark = pytest.mark.soak

STAGE = re.compile(r"✓ (starting|checking|making|measuring|finding|simulating|comparing) .*\d:\d\d:\d\d")
SIZE = ["--publishers", "4", "--publications", "20", "--subscribers", "30", "--symbols", "20", "--days", "10"]
SIZE += ["--tree", "path:2", "--clusters", "2"]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("standalone")) as url:
        yield url


def run(folder: Path, master: str, python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    named = f"python = '{python}'\n" if python else ""
    (folder / "octopia.toml").write_text(
        f"[pipeline]\nmaster = '{master}'\n{named}partitions = 2\n[pipeline.spark]\n"
        "'spark.driver.host' = '127.0.0.1'\n'spark.executor.memory' = '512m'\n"
        "'spark.driver.extraJavaOptions' = '-XX:TieredStopAtLevel=1'\n"
    )
    known = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"} | {"COLUMNS": "200"}
    command = [sys.executable, "-m", "octopia", "data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=folder, env=known)


def test_the_whole_pipeline_runs_without_settings_in_the_environment(master: str, tmp_path: Path):
    done = run(tmp_path, master, "", "pipeline", "made", *SIZE, "--first", "50", "--selectivity", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [(row["publications"], row["missing"], row["unwanted"]) for row in said["audit"]] == [(50, 0, 0)] * 2
    assert [line for line in done.stderr.splitlines() if not STAGE.fullmatch(line.strip())] == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["made", "octopia.toml"]


@pytest.mark.parametrize(
    ("python", "lack"),
    [
        ("/no/such/python", r"got: no Python at /no/such/python \(No such file or directory\)"),
        (f"{sys.base_prefix}/bin/python3", r"got: \S+/python3\S* on \S+: no \w+"),
    ],
)
def test_workers_that_lack_something_are_said_in_one_line(master: str, tmp_path: Path, python: str, lack: str):
    asked = [python, "-c", "import octopia.pipeline.truth"]
    if Path(python).exists() and not subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("the Python outside the virtual environment has octopia, too")
    done = run(tmp_path, master, python, "workload", "made", *SIZE)
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("octopia: "))
    assert re.search(lack, line)
    assert not (tmp_path / "made").exists()
