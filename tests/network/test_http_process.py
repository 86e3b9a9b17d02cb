"""The process that serves HTTP for a whole overlay, and the options of the commands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopia.addresses import Address
from octopia.cli import app
from octopia.errors import UsageError
from octopia.experiments.local_overlay import at_free_addresses, free_addresses
from octopia.http import process
from octopia.http.guard import Guard
from octopia.http.process import HttpProcess, check, invitation, page_of, parse_address
from octopia.overlay.files import overlay_from_text

WAIT_S = 20.0


def answer(port: HttpProcess, path: str) -> tuple[int, str]:
    """Return the status and the body of a response, once the port answers."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(f"http://{port.address}{path}", timeout=WAIT_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            assert time.monotonic() < deadline
            port.poll()


def test_it_answers_without_brokers_and_is_started_again_when_it_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "REVIVE_S", 0.0)
    overlay = at_free_addresses(overlay_from_text("path:2", 2))
    port = HttpProcess(overlay, Address("127.0.0.1", 0), Guard("127.0.0.1"))
    try:
        assert answer(port, "/healthz") == (200, "ok\n")
        assert answer(port, "/readyz") == (503, "not ready: a.0 a.1 b.0 b.1\n")
        first = port.pid
        os.kill(first, signal.SIGKILL)
        assert answer(port, "/healthz") == (200, "ok\n")
        assert port.pid != first
    finally:
        port.stop()


def test_a_process_that_cannot_be_started_again_harms_no_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "REVIVE_S", 0.0)
    overlay = at_free_addresses(overlay_from_text("path:2", 2))
    port = HttpProcess(overlay, Address("127.0.0.1", 0), Guard("127.0.0.1"))
    try:
        port._process.kill()
        port._process.join()
        with socket.create_server((port.address.host, port.address.port)):
            port.poll()
        assert "event=http_not_restarted" in caplog.text
        assert answer(port, "/healthz") == (200, "ok\n")
    finally:
        port.stop()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("7480", Address("127.0.0.1", 7480)),
        ("0.0.0.0:80", Address("0.0.0.0", 80)),
        ("[::1]:7480", Address("::1", 7480)),
        ("localhost:1", Address("localhost", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "http", "7480x", "localhost:", "99999", "-1"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="expected a port from 0 to 65535, or HOST:PORT"):
        parse_address(text)


def test_the_page_of_a_port() -> None:
    assert page_of(Address("127.0.0.1", 7480), Guard("127.0.0.1")) == "http://127.0.0.1:7480/"
    guard = Guard("0.0.0.0", "s3cret")
    assert page_of(Address("0.0.0.0", 7480), guard) == "http://127.0.0.1:7480/?token=TOKEN"


def test_the_invitation_keeps_the_secret_and_warns_of_plain_text() -> None:
    [local] = invitation(Address("127.0.0.1", 7480), Guard("127.0.0.1", "s3cret"))
    assert local.startswith("open http://127.0.0.1:7480/?token=TOKEN in a browser")
    assert local.endswith("TOKEN is the token of this port")
    lines = invitation(Address("0.0.0.0", 7480), Guard("0.0.0.0", "s3cret"))
    assert "s3cret" not in "".join(lines)
    assert lines[1] == "other machines reach the live map at port 7480 of every address of this machine"
    assert lines[2].startswith("warning: HTTP at 0.0.0.0:7480 is not encrypted")
    assert len(invitation(Address("0.0.0.0", 7480), Guard("0.0.0.0", "s3cret", is_encrypted=True))) == 2


def test_a_port_that_others_can_reach_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="OCTOPIA_HTTP_TOKEN"):
        check("0.0.0.0:7480", "", overlay_from_text("path:2", 2), "a.0")
    for command in (["up", "path:2"], ["broker", "path:2", "a.0"]):
        result = CliRunner().invoke(app, [*command, "--clusters", "2", "--http", "0.0.0.0:7480"])
        assert isinstance(result.exception, UsageError)


def test_nothing_of_it_is_loaded_without_the_option() -> None:
    loaded = "{'h11', 'websockets', 'prometheus_client', 'octopia.http'} & set(sys.modules)"
    code = f"import sys, octopia.cli.broker, octopia.cli.demo; print({loaded})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


@pytest.mark.parametrize("command", [["up", "--plain"], ["broker", "a.0"]], ids=["up", "broker"])
def test_the_commands_serve_the_map(command: list[str], tmp_path: Path) -> None:
    overlay = at_free_addresses(overlay_from_text("path:2", 1))
    places = "\n".join(
        f'[brokers."{broker}"]\nhost = "{address.host}"\nport = {address.port}'
        for broker, address in overlay.addresses.items()
    )
    file = tmp_path / "overlay.toml"
    file.write_text(f'tree = "path:2"\nclusters = 1\n{places}\n')
    (port,) = free_addresses(1)
    name, *rest = command
    arguments = [sys.executable, "-m", "octopia", name, str(file), *rest, "--http", str(port.port)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert any(f"open http://{port}/ in a browser" in line for line in lines)
            with urllib.request.urlopen(f"http://{port}/linkz", timeout=WAIT_S) as response:
                links = json.loads(response.read())["links"]
            assert list(links) == (["a.0>b.0", "b.0>a.0"] if name == "up" else ["a.0>b.0"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
