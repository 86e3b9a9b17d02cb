"""Operator commands while brokers are down, silent, or restarting."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from octopia.addresses import Address
from octopia.cli import app, top
from octopia.cli.contexts import Context, Contexts, find_operated, save_contexts
from octopia.cli.overlays import Watched
from octopia.client.operators import OPEN_S, Operator
from octopia.client.urls import parse_url
from octopia.errors import NotConfirmed, Unavailable
from octopia.protocol import Command, Verb
from octopia.runtime.local import Overlay
from octopia.transport.loop import run_loop

BROKERS = ["a.0", "a.1", "b.0", "b.1"]
REPORT = Command(Verb.REPORT)
PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OCTOPIA_URL", raising=False)


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"octopia://127.0.0.1:{listener.getsockname()[1]}"


def run_on_overlay(scenario: Callable[[Overlay], Awaitable[None]]) -> None:
    """Run a scenario on four brokers, with a context as `octopia context add FILE` makes it."""

    async def main() -> None:
        async with Overlay.local("path:2", 2) as overlay:
            urls = {broker: overlay.url(broker) for broker in BROKERS}
            save_contexts(Contexts("four", {"four": Context((urls["a.0"],), urls)}))
            await scenario(overlay)

    run_loop(main())


async def invoke(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


def test_commands_work_while_the_first_broker_is_down() -> None:
    async def scenario(overlay: Overlay) -> None:
        overlay.crash("a.0")
        status = await invoke("status")
        assert (status.exit_code, status.stdout.splitlines()[0].rstrip()) == (1, "path:2: 3 of 4 brokers")
        for arguments in (["report", "brokers"], ["top", "--once", "--every", "0.05"]):
            shown = await invoke(*arguments)
            assert shown.exit_code == 0, shown.exception
            assert shown.stdout.startswith("path:2: 3 brokers; no answer from a.0 ")
        listed = await invoke("link", "list")
        assert "a.1 to a.0 (ilink): down\n" in listed.stdout
        assert "b.0 to b.1 (ilink): up\n" in listed.stdout
        explained = await invoke("explain", "nobody", "x=1")
        assert "\na.0: not running\nthe link from a.1 to a.0 is down\n" in explained.stdout
        # It is connected to a.1, which cannot confirm anything before a.0 is back.
        published = await invoke("pub", "x=1", "--timeout", "0.3")
        assert isinstance(published.exception, NotConfirmed)

    run_on_overlay(scenario)


def test_the_first_broker_is_preferred_while_it_is_up() -> None:
    async def scenario(overlay: Overlay) -> None:
        assert await find_operated(None) == parse_url(overlay.url("a.0"))
        await invoke("pub", "x=1")
        (report,) = [each for each in (await Watched(None).ask(REPORT)).reports.values() if each["published"]]
        assert report["id"] == "a.0"

    run_on_overlay(scenario)


def test_an_overlay_is_watched_through_any_broker() -> None:
    async def scenario(overlay: Overlay) -> None:
        watched = Watched(overlay.url("a.0"))
        assert (await watched.ask(REPORT)).problems == {}
        overlay.crash("a.0")
        found = await watched.ask(REPORT)
        assert (sorted(found.reports), found.problems) == (BROKERS[1:], {"a.0": "not running"})
        for broker in BROKERS[1:]:
            overlay.crash(broker)
        found = await watched.ask(REPORT)
        assert (found.reports, sorted(found.problems)) == ({}, BROKERS)
        await overlay.restart("b.1")
        assert sorted((await watched.ask(REPORT)).reports) == ["b.1"]

    run_on_overlay(scenario)


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (["status", "--watch"], "path:2: 3 of 4 brokers"),
        (["report", "brokers", "--watch"], "path:2: 3 brokers; no answer from a.0"),
    ],
)
def test_a_watch_goes_on_when_its_broker_stops(
    arguments: list[str], title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(overlay: Overlay) -> None:
        loop, is_down = asyncio.get_running_loop(), threading.Event()

        def crash() -> None:
            overlay.crash("a.0")
            is_down.set()

        def stop_broker_then_watch(_: float) -> None:
            if is_down.is_set():
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(crash)
            assert is_down.wait(PATIENCE_S)

        monkeypatch.setattr(time, "sleep", stop_broker_then_watch)
        shown = await invoke(*arguments, "--url", overlay.url("a.0"))
        assert shown.exit_code == 0
        assert shown.stdout.startswith(title)

    run_on_overlay(scenario)


def test_a_broker_that_was_missing_has_no_rates_yet() -> None:
    async def scenario(overlay: Overlay) -> None:
        async with overlay.connect("b.1") as client:
            await client.advertise("x > 0")
            await client.publish({"x": 1})
            watched = Watched(None)
            whole = await watched.ask(REPORT)
            without = {name: report for name, report in whole.reports.items() if name != "b.1"}
            before = type(whole)(whole.overlay, whole.addresses, without, {"b.1": "not running"})
        rows = {row["broker"]: row for row in top.rates(before, whole, 1.0)}
        assert (rows["b.1"]["published"], rows["b.1"]["published_per_s"]) == (1, 0.0)

    run_on_overlay(scenario)


def test_a_silent_broker_does_not_hold_up_the_next(silent: str) -> None:
    async def scenario(overlay: Overlay) -> None:
        begin = time.monotonic()
        assert await find_operated(f"{silent},{overlay.url('b.0')}") == parse_url(overlay.url("b.0"))
        assert time.monotonic() - begin < OPEN_S

    run_on_overlay(scenario)


def test_the_time_limit_holds_while_a_broker_is_asked_for_another(silent: str) -> None:
    begin = time.monotonic()
    result = CliRunner().invoke(app, ["pub", "x=1", "-b", "b.0", "--url", silent, "--timeout", "1.2"])
    assert time.monotonic() - begin < 1.2 + OPEN_S / 2
    assert isinstance(result.exception, Unavailable)
    assert str(result.exception) == "no broker has answered where b.0 is (tried for 1.2 s)"
    assert "waiting for b.0\n" in result.stderr


def test_an_operator_waits_for_a_greeting_for_a_limited_time(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octopia.client.operators.OPEN_S", 0.1)
    begin = time.monotonic()
    result = CliRunner().invoke(app, ["report", "brokers", "--url", silent])
    assert time.monotonic() - begin < OPEN_S
    assert isinstance(result.exception, Unavailable)
    assert "expected a greeting from a broker at 127.0.0.1:" in str(result.exception)


def test_a_command_that_is_given_up_does_not_wait_for_a_silent_broker(silent: str) -> None:
    async def main() -> float:
        address: Address = parse_url(silent)
        begin = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1), Operator(address):
                pass
        return time.monotonic() - begin

    assert run_loop(main()) < 0.9
