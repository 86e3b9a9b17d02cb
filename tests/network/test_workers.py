"""The workers of ``octopia up``: one that dies comes back, again and again, and never stops the others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import free_ports

from octopia.addresses import Address
from octopia.client import connect_blocking
from octopia.client.operators import ask_status
from octopia.errors import InvalidOverlay, NotConfirmed, Unavailable
from octopia.experiments.local_overlay import at_free_addresses, running, urls_of
from octopia.overlay import LinkShape
from octopia.overlay.files import Overlay, load_overlay, overlay_from_text
from octopia.runtime import process, server
from octopia.runtime.process import Restart, Workers, next_wait_s
from support import at

PATIENCE_S = 30.0
KILLS = 10
OCTOPIA = [sys.executable, "-m", "octopia"]


@contextlib.contextmanager
def occupied(address: Address) -> Iterator[None]:
    """Let another process listen at an address: workers would inherit a socket of this one."""
    program = f"import socket; taken = socket.create_server(({address.host!r}, {address.port})); print(); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        try:
            yield
        finally:
            other.kill()


def wait_for(workers: Workers, condition: Callable[[], bool], what: str) -> None:
    """Check a condition after each event of the workers, until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        workers.wait(deadline - time.monotonic())
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}"
        workers.poll()


@pytest.fixture
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "BACKOFF_S", (0.02, 0.1))


def test_the_wait_doubles_up_to_a_limit_and_a_healthy_life_resets_it():
    waits = [0.0]
    for _ in range(9):
        waits.append(next_wait_s(waits[-1], 1.0))
    assert waits[1:] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert next_wait_s(10.0, process.HEALTHY_S) == 0.1


def test_a_restart_is_described():
    assert Restart(103.24, "exit code 1").describe(100.0) == "restarting in 3.2 s: exit code 1"
    assert Restart(103.24, "exit code 1").describe(200.0) == "restarting in 0.0 s: exit code 1"


@pytest.mark.usefixtures("_short_waits")
def test_a_worker_that_is_killed_ten_times_comes_back_and_stops_nobody(caplog: pytest.LogCaptureFixture):
    overlay = at_free_addresses(overlay_from_text("path:2", 2))
    with running(overlay, 2) as workers:
        victim, other = workers.pids
        url = urls_of(overlay)[1]  # a.1 runs in the other process.
        with connect_blocking(url) as client:
            subscription = client.subscribe("n >= 0")
            client.advertise("n >= 0")
            for number in range(KILLS):
                os.kill(workers.pids[0], signal.SIGKILL)
                wait_for(workers, lambda: bool(workers.problems()), "its death")
                assert list(workers.problems()) == ["a.0", "b.0"]
                assert re.fullmatch(r"restarting in 0\.\d s: killed by SIGKILL", workers.problems()["a.0"])
                client.publish({"n": number})
                assert next(iter(subscription))["n"] == number
                wait_for(workers, workers.is_ready, "its return")
                assert workers.problems() == {}
        assert workers.pids[1] == other
        assert workers.pids[0] != victim
    lines = [record.getMessage() for record in caplog.records]
    died = [line for line in lines if line.startswith("event=worker_died")]
    assert died[0] == 'event=worker_died overlay=path:2 brokers=a.0,b.0 reason="killed by SIGKILL"'
    suppressed = re.search(r"event=worker_died .*suppressed=(\d+)", caplog.text)
    assert suppressed is not None
    assert len(died) - 1 + int(suppressed[1]) == KILLS
    assert "event=worker_restarted overlay=path:2 brokers=a.0,b.0" in lines


@pytest.mark.usefixtures("_short_waits")
def test_a_broker_that_runs_alone_can_be_killed_for_good():
    overlay = at_free_addresses(overlay_from_text("path:3", 2))
    with running(overlay, 1, alone=[at("b.0")]) as workers:
        assert len(workers.pids) == 2
        workers.kill(at("b.0"))
        wait_for(workers, lambda: "b.0" in workers.problems(), "its death")
        assert workers.problems() == {"b.0": "down until it is started again: it was killed"}
        wait_for(workers, lambda: not workers.poll()["a.0"]["links"]["b.0"]["up"], "its neighbours")
        with connect_blocking(urls_of(overlay)[0]) as publisher, connect_blocking(urls_of(overlay)[5]) as subscriber:
            subscription = subscriber.subscribe("n >= 0")
            publisher.advertise("n >= 0")
            publisher.publish({"n": 1})
            assert next(iter(subscription))["n"] == 1


@pytest.mark.usefixtures("_short_waits")
def test_a_worker_whose_port_is_taken_waits_while_the_others_serve(caplog: pytest.LogCaptureFixture):
    overlay = at_free_addresses(overlay_from_text("path:2", 2))
    taken = overlay.addresses[at("a.0")]
    with occupied(taken):
        workers = Workers(overlay, 2)
        try:
            wait_for(
                workers, lambda: {"a.1", "b.1"} <= workers.poll().keys() and bool(workers.problems()), "the others"
            )
            wait_for(workers, lambda: max(each.wait_s for each in workers._workers) >= 0.1, "several failures")
            reason = f"a.0 cannot listen at {taken}: "
            assert reason in workers.problems()["b.0"]
            with connect_blocking(urls_of(overlay)[1]) as client:
                subscription = client.subscribe("n >= 0", timeout=PATIENCE_S)
                with contextlib.suppress(NotConfirmed):  # It waits for a.0, and is in force everywhere else.
                    client.advertise("n >= 0", timeout=0.5)
                client.publish({"n": 1})
                assert next(iter(subscription))["n"] == 1
            asked: dict[str, str] = {}

            def is_known() -> bool:
                asked.update(asyncio.run(ask_status(overlay.addresses[at("a.1")])).problems)
                return asked.get("a.0", "").startswith("restarting in")

            wait_for(workers, is_known, "the others to know it")
            assert reason in asked["a.0"]
        except BaseException:
            workers.stop()
            raise
    try:
        wait_for(workers, workers.is_ready, "the port to be free")
    finally:
        workers.stop()
    died = [record.getMessage() for record in caplog.records if "event=worker_died" in record.getMessage()]
    assert len(died) == 1, "once per reason"
    assert reason in died[0]
    assert "event=worker_restarted" in caplog.text


@pytest.mark.usefixtures("_short_waits")
def test_a_fenced_broker_stays_down_and_stops_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "STARTING_S", 0.0)
    overlay = at_free_addresses(overlay_from_text("path:2", 2))
    with running(overlay, 2) as workers:
        asyncio.run(_fence(overlay, workers))
        before = workers.pids
        assert workers.poll().keys() == {"a.1", "b.0", "b.1"}
        os.kill(before[0], signal.SIGKILL)
        wait_for(workers, lambda: workers.pids != before, "another process for b.0")
        wait_for(workers, lambda: workers.poll().keys() == {"a.1", "b.0", "b.1"}, "b.0")
        assert list(workers.problems()) == ["a.0"]


async def _fence(overlay: Overlay, workers: Workers) -> None:
    """Run a newer broker as a.0 until the older one is down."""
    changed = asyncio.Event()
    newer = server.BrokerServer(overlay, at("a.0"), observe=lambda _: changed.set())
    await newer.listen(Address("127.0.0.1", 0))
    newer.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while "a.0" in workers.poll() or "a.0" not in workers.problems() or not newer.is_connected:
                changed.clear()
                await changed.wait()
    finally:
        await newer.stop()
    assert workers.problems()["a.0"].startswith("down until it is started again: a.0 is fenced: a newer broker runs as")


def test_a_worker_without_a_broker_that_may_start_stays_down(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "STARTING_S", 0.0)
    overlay = at_free_addresses(overlay_from_text("path:2", 1))
    with running(overlay, 2) as workers:
        asyncio.run(_fence(overlay, workers))
        wait_for(workers, lambda: not workers._workers[0].is_running, "the end of its process")
        assert workers._workers[0].restart == Restart(math.inf, workers._workers[0].fenced["a.0"])
        assert workers.poll().keys() == {"b.0"}


def test_if_nothing_comes_up_the_reason_is_raised():
    overlay = at_free_addresses(overlay_from_text("path:2", 1))
    with occupied(overlay.addresses[at("a.0")]), occupied(overlay.addresses[at("b.0")]):
        workers = Workers(overlay, 2)
        try:
            with pytest.raises(Unavailable, match=r"a\.0 cannot listen at"):
                wait_for(workers, lambda: False, "an error")
        finally:
            workers.stop()


def test_a_delay_that_the_network_does_not_allow_is_an_error_of_the_file():
    overlay = overlay_from_text("path:2", 1)
    slow = dataclasses.replace(overlay, shapes={(at("a.0"), at("b.0")): LinkShape(delay_ms=5_000.0)})
    with pytest.raises(InvalidOverlay, match="expected a delay below"):
        Workers(slow, 2)


def write_overlay(folder: Path) -> Overlay:
    names = ("a.0", "a.1")
    places = "".join(f'[brokers."{name}"]\nport = {port}\n' for name, port in zip(names, free_ports(2), strict=True))
    file = folder / "overlay.toml"
    file.write_text(f'name = "two"\ntree = "a"\nclusters = 2\n{places}')
    return load_overlay(file)


def test_up_goes_on_without_a_broker_that_cannot_listen(tmp_path: Path):
    overlay = write_overlay(tmp_path)
    taken = overlay.addresses[at("a.0")]
    command = [*OCTOPIA, "up", str(tmp_path / "overlay.toml"), "--processes", "2", "--plain", "--verbose"]
    with occupied(taken):
        up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert up.stdout is not None
        assert "1 of 2 brokers are up" in up.stdout.readline()
        assert re.match(r"a\.0 is restarting in \d+\.\d s: a\.0 cannot listen at", up.stdout.readline())
        url = f"octopia://{overlay.addresses[at('a.1')]}"
        with connect_blocking(url, name="feed"):
            pass
        status = subprocess.run(
            [*OCTOPIA, "status", "--url", url],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"COLUMNS": "200"},
        )
        assert status.returncode == 1
        assert re.search(r"restarting in \d+\.\d s: a\.0 cannot listen at", status.stdout)
        up.send_signal(signal.SIGTERM)
        said, logged = up.communicate(timeout=PATIENCE_S)
    assert up.returncode == 0, logged
    assert "all brokers have stopped" in said
    assert logged.count("event=worker_died") == 1
    assert re.search(r"INFO event=connected broker=a\.1 peer=\S+ client=feed", logged)


def test_up_says_why_nothing_comes_up(tmp_path: Path):
    overlay = write_overlay(tmp_path)
    taken = overlay.addresses[at("a.1")]
    with occupied(taken):
        command = [*OCTOPIA, "up", str(tmp_path / "overlay.toml"), "--processes", "1", "--plain"]
        up = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert up.returncode == 1
    assert f"octopia: a.1 cannot listen at {taken}" in up.stderr
