"""Commands that run brokers, with their output on a full disk: they run all the same."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import free_ports

from octopia.client import connect_blocking

FULL = Path("/dev/full")
PATIENCE_S = 30.0


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [["broker", "a.0"], ["up", "--plain"]], ids=["broker", "up"])
def test_a_broker_runs_when_its_output_cannot_be_written(command: list[str], tmp_path: Path):
    [port] = free_ports(1)
    overlay = tmp_path / "overlay.toml"
    overlay.write_text(f'tree = "path:1"\nclusters = 1\n[brokers."a.0"]\nport = {port}\n')
    name, *rest = command
    words = [sys.executable, "-c", "from octopia.cli import main; main()", name, str(overlay), *rest]
    with FULL.open("w") as full, subprocess.Popen(words, stdout=full, stderr=full) as process:
        try:
            with connect_blocking(f"octopia://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
                client.advertise("x > 0", timeout=PATIENCE_S)
                subscription = client.subscribe("x > 0", timeout=PATIENCE_S)
                client.publish({"x": 1}, timeout=PATIENCE_S)
                assert subscription.next(timeout=PATIENCE_S)["x"] == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
