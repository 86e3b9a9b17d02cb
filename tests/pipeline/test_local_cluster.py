"""The command ``octopia pipeline`` with driver and workers in separate processes that share nothing but files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

STAGE = re.compile(r"✓ (starting|making|measuring|finding|simulating|comparing) .* \d:\d\d:\d\d")


def run_pipeline(out: Path, *where: str) -> tuple[dict, list[str]]:
    """Return the output of the command, and its lines on standard error."""
    size = ["--publishers", "4", "--publications", "20", "--subscribers", "30", "--symbols", "20", "--days", "10"]
    place = ["--tree", "path:2", "--clusters", "2", "--first", "50", "--selectivity", "0.2", "--json"]
    # For code that runs for seconds, optimising compilation does not pay off.
    quick = '"-XX:TieredStopAtLevel=1"'
    options = "\n".join(f'"spark.{each}.extraJavaOptions" = {quick}' for each in ("driver", "executor"))
    (out / "octopia.toml").write_text(f"[pipeline.spark]\n{options}\n")
    command = [sys.executable, "-m", "octopia", "data", "pipeline", "made", *size, *place, *where]
    # Under test, a Spark Connect server takes a free port. The usual one may be in use.
    wide = {**os.environ, "COLUMNS": "200", "SPARK_TESTING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=out, env=wide)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)), [line.strip() for line in done.stderr.splitlines()]


@pytest.mark.soak
def test_nothing_is_shared_but_files(without_java, tmp_path):
    said, shown = run_pipeline(tmp_path, "--master", "local-cluster[2,1,1024]")
    assert said["manifest"]["publications"] == 80
    assert said["matches"] == pytest.approx(0.2 * 80 * 30, rel=0.4)
    assert [(row["algorithm"], row["publications"], row["missing"], row["unwanted"]) for row in said["audit"]] == [
        ("dynamic", 50, 0, 0),
        ("static", 50, 0, 0),
    ]
    # Java and Spark print nothing there, not even when they stop.
    assert [line for line in shown if not STAGE.fullmatch(line)] == []
    assert len(shown) == 9


@pytest.mark.soak
def test_through_spark_connect(without_java, tmp_path):
    said, _ = run_pipeline(tmp_path, "--remote", "local[2]")
    assert [(row["publications"], row["missing"], row["unwanted"]) for row in said["audit"]] == [(50, 0, 0)] * 2
