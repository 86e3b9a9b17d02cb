"""Messages to a supervisor, over a socket as systemd has it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from octopia.runtime.supervisor import READY, notify_supervisor


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_supervisor_gets_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        address = f"@octopia-{tmp_path.name}" if is_abstract else str(tmp_path / "notify")
        supervisor.bind(address.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        assert notify_supervisor(READY)
        assert supervisor.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_without_one_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, address: str):
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not notify_supervisor(READY)
    monkeypatch.delenv("NOTIFY_SOCKET")
    assert not notify_supervisor(READY)
