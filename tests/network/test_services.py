"""A broker as a service: it tells its supervisor when it listens, and the template unit starts it as documented."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

from processes import free_ports
from typer.testing import CliRunner

from octopia.cli import app

UNIT = Path(__file__).parents[2] / "deploy" / "octopia-broker@.service"
PATIENCE_S = 60.0


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(UNIT.read_text())
    return parsed


def test_the_command_of_the_unit_exists_with_all_its_options():
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "octopia"
    assert service["Type"] == "notify"
    help_text = CliRunner().invoke(app, [arguments[0], "--help"]).output
    assert all(each in help_text for each in arguments if each.startswith("--"))


def test_a_broker_that_listens_says_so_and_stops_in_order(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(PATIENCE_S)
        [port] = free_ports(1)
        (tmp_path / "overlay.toml").write_text(f'tree = "path:1"\nclusters = 1\n[brokers."a.0"]\nport = {port}\n')
        arguments = [each.replace("%i", "a.0") for each in shlex.split(unit()["Service"]["ExecStart"])[1:]]
        arguments[1] = str(tmp_path / "overlay.toml")
        with subprocess.Popen(
            [sys.executable, "-m", "octopia", *arguments],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stderr=subprocess.DEVNULL,
        ) as broker:
            try:
                assert supervisor.recv(100) == b"READY=1"
                with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
                    pass
                broker.send_signal(signal.SIGTERM)
                assert broker.wait(PATIENCE_S) == 0
            finally:
                broker.kill()
