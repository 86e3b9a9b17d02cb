"""A machine without a C compiler installs OctopiA all the same, is told so, and gets the same answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MATCHING_TESTS = ("tests/unit/matching", "tests/property/test_matching_index.py")


@pytest.mark.soak
def test_a_clean_clone_without_a_compiler_installs_and_matches(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["CC"] = "/bin/false"
    made = subprocess.run(
        ["make", ".venv/.ready"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert "run as plain Python" in made.stdout
    assert not list((tmp_path / "src").rglob("*.so"))
    tested = subprocess.run(
        [tmp_path / ".venv/bin/pytest", "-q", *MATCHING_TESTS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout[-3000:]
