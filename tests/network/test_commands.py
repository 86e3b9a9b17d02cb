"""The commands that run brokers, publish and subscribe, as people type them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import free_ports

from octopia.client import connect_blocking

OCTOPIA = [sys.executable, "-m", "octopia"]
PATIENCE_S = 60


class Running:
    """An overlay that runs, and where its brokers are."""

    def __init__(self, process: subprocess.Popen[str], file: Path, ports: dict[str, int]):
        self.process = process
        self.file = file
        self.ports = ports

    def url(self, broker: str) -> str:
        return f"octopia://127.0.0.1:{self.ports[broker]}"


def octopia(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **options}
    return subprocess.run(
        [*OCTOPIA, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, env=environment, check=False
    )


def write_overlay(folder: Path) -> tuple[Path, dict[str, int]]:
    names = [f"{region}.{cluster}" for region in "abc" for cluster in range(2)]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    brokers = "".join(f'[brokers."{name}"]\nport = {port}\n' for name, port in ports.items())
    file = folder / "overlay.toml"
    file.write_text(f'name = "six"\ntree = "a-b, b-c"\nclusters = 2\n{brokers}')
    return file, ports


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    file, ports = write_overlay(tmp_path)
    process = subprocess.Popen(
        [*OCTOPIA, "up", str(file), "--processes", "2", "--plain"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert "6 brokers are up" in process.stdout.readline()
    yield Running(process, file, ports)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=PATIENCE_S)
    assert "all brokers have stopped" in rest
    assert process.returncode == 0


def test_what_is_published_here_arrives_there(running: Running) -> None:
    subscriber = subprocess.Popen(
        [*OCTOPIA, "sub", "price > 100", "--count", "2", "--json", "--url", running.url("c.1")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert subscriber.stderr is not None
    assert "subscribed" in subscriber.stderr.readline()
    published = octopia("pub", "symbol=IBM", "price=101.5", "--count", "2", "--json", OCTOPIA_URL=running.url("a.0"))
    assert json.loads(published.stdout)["accepted"] == 2, published.stderr
    told, _ = subscriber.communicate(timeout=PATIENCE_S)
    received = [json.loads(line) for line in told.splitlines()]
    assert [each["attributes"] for each in received] == [{"symbol": "IBM", "price": 101.5}] * 2
    assert received[0]["hops"] == 3


def test_a_link_is_throttled_while_the_overlay_runs(running: Running) -> None:
    shaped = octopia("link", "throttle", "b.1:b.0", "--rate", "50", "--both", "--json", "--url", running.url("a.0"))
    assert [(each["from"], each["to"], each["rate"]) for each in json.loads(shaped.stdout)] == [
        ("b.1", "b.0", 50.0),
        ("b.0", "b.1", 50.0),
    ]
    wrong = octopia("link", "throttle", "a.0:c.1", "--rate", "50", "--url", running.url("a.0"))
    assert wrong.returncode == 2
    assert "expected a neighbour of a.0 (b.0, a.1), got c.1" in wrong.stderr


def test_an_unknown_broker_cannot_be_throttled(running: Running) -> None:
    unknown = octopia("link", "throttle", "z.9:b.0", "--rate", "50", "--url", running.url("a.0"))
    assert unknown.returncode == 2
    assert "expected a broker of the overlay six, got 'z.9'" in unknown.stderr


def test_status_shows_all_brokers_through_any_of_them(running: Running) -> None:
    octopia("link", "throttle", "b.1:b.0", "--rate", "50", "--url", running.url("a.0"))
    whole = octopia("status", "--json", OCTOPIA_URL=running.url("c.1"))
    assert whole.returncode == 0, whole.stderr
    found = json.loads(whole.stdout)
    assert (found["name"], found["tree"], found["clusters"]) == ("six", "a-b, b-c", 2)
    assert (found["whole"], found["problems"]) == (True, {})
    assert list(found["brokers"]) == ["a.0", "a.1", "b.0", "b.1", "c.0", "c.1"]
    assert found["brokers"]["b.1"]["links"]["b.0"]["rate"] == 50.0
    table = octopia("status", "--url", running.url("a.0"))
    assert table.returncode == 0
    assert "six: 6 of 6 brokers" in table.stdout
    assert "rerouted" in table.stdout
    both = octopia("status", "--watch", "--json", "--url", running.url("a.0"))
    assert both.returncode == 2


def test_the_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    ports = free_ports(2)
    brokers = "".join(f'[brokers."{name}"]\nport = {port}\n' for name, port in zip(("a.0", "b.0"), ports, strict=True))
    file = tmp_path / "overlay.toml"
    # What is accepted at a.0 takes a minute to b.0.
    link = '[[link]]\nbetween = ["a.0", "b.0"]\nrate = 1\n'
    file.write_text(f'tree = "path:2"\nclusters = 1\n{brokers}{link}')
    words = [*OCTOPIA, "up", str(file), "--processes", "2", "--plain"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "2 brokers are up" in process.stdout.readline()
        urls = [f"octopia://127.0.0.1:{port}" for port in ports]
        with connect_blocking(urls[0]) as publisher, connect_blocking(urls[1]) as subscriber:
            publisher.advertise("n >= 0", ordered=True)
            subscriber.subscribe("n >= 0")
            publisher.publish_many({"n": n} for n in range(60))
            process.send_signal(signal.SIGINT)
            assert "Ctrl-C again stops at once" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=PATIENCE_S)
    assert rest.endswith("all brokers were stopped at once; publications that they had not passed on are lost\n")
    assert process.returncode == 1
    assert "Traceback" not in errors


def test_status_of_half_an_overlay_is_a_failure(tmp_path: Path) -> None:
    file, ports = write_overlay(tmp_path)
    process = subprocess.Popen([*OCTOPIA, "broker", str(file), "a.0", "b.0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "a.0 listens at" in process.stderr.readline()
    assert "b.0 listens at" in process.stderr.readline()
    url = f"octopia://127.0.0.1:{ports['a.0']}"
    table = octopia("status", "--url", url)
    assert table.returncode == 1
    assert "six: 2 of 6 brokers" in table.stdout
    assert table.stdout.count("not running") == 4
    found = json.loads(octopia("status", "--url", url, "--json").stdout)
    assert found["whole"] is False
    assert found["brokers"]["c.1"] is None
    assert found["problems"] == dict.fromkeys(["a.1", "b.1", "c.0", "c.1"], "not running")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)


def test_mistakes_are_explained(running: Running) -> None:
    refused = octopia("sub", "price >> 100", "--url", running.url("a.0"))
    assert refused.returncode == 2
    assert "price >> 100" in refused.stderr
    assert "^" in refused.stderr
    elsewhere = octopia("pub", "x=1", "--url", f"{running.url('a.1')}/c.1")
    assert elsewhere.returncode == 1
    assert "this is a.1, not c.1" in elsewhere.stderr
    taken = octopia("broker", str(running.file), "a.0")
    assert taken.returncode == 1
    assert "a.0 cannot listen at" in taken.stderr


def test_nobody_there() -> None:
    (port,) = free_ports(1)
    alone = octopia("pub", "x=1", "--url", f"octopia://127.0.0.1:{port}")
    assert alone.returncode == 1
    assert "no broker answers" in alone.stderr
    assert "octopia up" in alone.stderr


def test_attributes_are_read_or_refused() -> None:
    assert octopia("pub", "price").returncode == 2
    both = octopia("pub", "x=1", "--stdin")
    assert both.returncode == 2
    assert "got both" in both.stderr


def test_a_broker_alone_drains_on_sigterm(tmp_path: Path) -> None:
    file, _ = write_overlay(tmp_path)
    process = subprocess.Popen([*OCTOPIA, "broker", str(file), "a.0", "a.1"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "a.0 listens at" in process.stderr.readline()
    assert "a.1 listens at" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=PATIENCE_S)
    assert "drained and stopped" in rest
    assert process.returncode == 0


def test_the_log_can_be_json(tmp_path: Path) -> None:
    file, ports = write_overlay(tmp_path)
    command = [*OCTOPIA, "broker", str(file), "a.0", "--log-json"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "a.0 listens at" in process.stderr.readline()
    with socket.create_connection(("127.0.0.1", ports["a.0"])) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        told = json.loads(process.stderr.readline())
    assert (told["level"], told["event"], told["broker"]) == ("warning", "bad_frame", "a.0")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
