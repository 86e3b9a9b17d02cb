"""The pipeline where driver and workers share nothing but files: once, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def run_pipeline(out: Path, *where: str) -> dict:
    size = ["--publishers", "4", "--publications", "20", "--subscribers", "30", "--symbols", "20", "--days", "10"]
    place = ["--overlay", "path:2", "--clusters", "2", "--first", "50", "--selectivity", "0.2", "--json"]
    # Code that runs for seconds is not worth compiling well.
    quick = '"-XX:TieredStopAtLevel=1"'
    options = "\n".join(f'"spark.{each}.extraJavaOptions" = {quick}' for each in ("driver", "executor"))
    (out / "octopia.toml").write_text(f"[pipeline.spark]\n{options}\n")
    command = [sys.executable, "-m", "octopia", "pipeline", "made", *size, *place, *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=out)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_nothing_is_shared_but_files(without_java, tmp_path):
    said = run_pipeline(tmp_path, "--master", "local-cluster[2,1,1024]")
    assert [(row["publications"], row["missing"], row["unwanted"]) for row in said["audit"]] == [(50, 0, 0)] * 2


@pytest.mark.soak
def test_through_spark_connect(without_java, tmp_path):
    said = run_pipeline(tmp_path, "--remote", "local[2]")
    assert [(row["publications"], row["missing"], row["unwanted"]) for row in said["audit"]] == [(50, 0, 0)] * 2
