"""The benchmark of TLS in a size that takes little time, so that it cannot rot."""

from __future__ import annotations

import json
import sys

import pytest

from support import load_benchmark


@pytest.mark.skipif(sys.platform != "linux", reason="it reads the clocks of processes as Linux has them")
def test_both_ways_are_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    load_benchmark("security", monkeypatch).main(["--quick", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["load"] for row in rows] == ["full", "full", "full", "500/s"]
    assert all(row["plain_us"] > 0 and row["tls_us"] > 0 for row in rows)
