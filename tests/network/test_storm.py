"""Many clients whose broker restarts, and a broker that turns clients away while it is busy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import octopia
from octopia.runtime.lag import LagGate
from octopia.runtime.local import Overlay

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "storm.py"
PATIENCE_S = 30.0


def test_all_clients_are_back_after_a_restart():
    arguments = ["--clients", "60", "--processes", "2", "--limit", str(PATIENCE_S), "--json"]
    done = subprocess.run([sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["clients"] == 60
    assert 0.0 < found["listening_s"] < found["connected_s"] <= found["back_s"] < PATIENCE_S


def test_the_benchmark_fails_if_clients_are_not_back_in_time():
    arguments = ["--clients", "4", "--processes", "1", "--limit", "0"]
    done = subprocess.run([sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "in time" in done.stderr


def test_a_busy_broker_turns_new_clients_away_and_lets_known_ones_resume(monkeypatch: pytest.MonkeyPatch):
    async def run() -> None:
        back, turned_away = asyncio.Event(), 0

        def busy(_: LagGate) -> int:
            nonlocal turned_away
            turned_away += 1
            return 20

        async with (
            Overlay.local("path:2", 1) as overlay,
            overlay.connect("a.0", on_reconnect=back.set) as known,
        ):
            await known.advertise("x >= 0", timeout=PATIENCE_S)
            subscription = await known.subscribe("x >= 0", timeout=PATIENCE_S)
            with monkeypatch.context() as patch:
                patch.setattr(LagGate, "retry_ms", busy)
                for server in overlay._servers.values():
                    for line in server.client_lines.values():
                        line.connection.abort()
                await asyncio.wait_for(back.wait(), PATIENCE_S)
                assert (subscription.gaps, turned_away) == (0, 0)
                with pytest.raises(octopia.Unavailable, match=r"a\.0 is busy; retry in 20 ms"):
                    await overlay.connect("a.0", timeout=0.2)
                assert turned_away > 1
            async with overlay.connect("a.0", timeout=PATIENCE_S) as late:
                assert late.is_connected

    asyncio.run(run())
