"""The benchmark of TLS, metrics and the map in a size that takes little time, so that it cannot rot."""

from __future__ import annotations

import json
import sys

import pytest

from support import load_benchmark


@pytest.mark.skipif(sys.platform != "linux", reason="it reads the clocks of processes as Linux has them")
def test_all_cases_are_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    load_benchmark("operating", monkeypatch).main(["--quick", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["load"] for row in rows] == ["full", "500/s"]
    assert all(row[f"{name}_us"] > 0 for row in rows for name in ("plain", "tls", "metrics", "map", "all"))
