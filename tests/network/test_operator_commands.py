"""The commands that look at a running overlay and change it: report, top, ping, link, explain, and brokers by name."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import free_ports
from ticking import ticks
from typer.testing import CliRunner, Result

from octopia.addresses import Address
from octopia.cli import app, publish, report, top
from octopia.client import BlockingClient, connect_blocking
from octopia.client.attempts import connect_to
from octopia.client.operators import Asker, ask, is_here, is_wanted
from octopia.client.urls import parse_url
from octopia.errors import RequestRefused, Unavailable, UnknownBroker, UsageError
from octopia.protocol import Command, Verb
from octopia.runtime.local import Overlay
from octopia.settings import Algorithm, RoutingSettings
from octopia.transport import Connection
from octopia.transport.loop import run_loop

PATIENCE_S = 60
NAMES = [f"{region}.{cluster}" for region in "abc" for cluster in range(2)]


class Running:
    """An overlay of six brokers in other processes."""

    def __init__(self, file: Path, ports: dict[str, int]):
        self.file = file
        self.ports = ports

    def url(self, broker: str) -> str:
        return f"octopia://127.0.0.1:{self.ports[broker]}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
    brokers = "".join(f'[brokers."{name}"]\nport = {port}\n' for name, port in ports.items())
    file = tmp_path_factory.mktemp("six") / "overlay.toml"
    file.write_text(f'name = "six"\ntree = "a-b, b-c"\nclusters = 2\n{brokers}')
    command = [sys.executable, "-m", "octopia", "up", str(file), "--processes", "1", "--plain"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "6 brokers are up" in process.stdout.readline()
    yield Running(file, ports)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "unreachable" not in log


@pytest.fixture(autouse=True)
def at_a(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPIA_URL", running.url("a.0"))


def invoke(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False, **options)


def octopia(*arguments: str, **options: Any) -> str:
    result = invoke(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*arguments: str) -> Any:
    return json.loads(octopia(*arguments, "--json"))


def wait_until(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(PATIENCE_S * 20):
        if condition():
            return
        tick.wait(0.05)
    raise AssertionError("timed out")


@pytest.fixture
def screen(running: Running) -> Iterator[BlockingClient]:
    """A subscriber at c.1, and a publisher at a.0."""
    with (
        connect_blocking(running.url("c.1"), name="screen") as screen,
        connect_blocking(running.url("a.0"), name="feed") as feed,
    ):
        screen.subscribe("symbol = 'IBM' AND price > 100")
        feed.advertise("symbol IS NOT NULL AND price > 0")
        yield feed


def test_reports_have_every_part(screen: BlockingClient) -> None:
    screen.publish({"symbol": "IBM", "price": 101})
    brokers = {row["broker"]: row for row in as_json("report", "brokers")["brokers"]}
    assert list(brokers) == NAMES
    assert (brokers["a.0"]["ready"], brokers["a.0"]["clients"], brokers["a.0"]["lost"]) == (True, 1, 0)
    assert brokers["a.0"]["published"] >= 1
    links = as_json("report", "links", "-b", "b.0")["links"]
    assert [(row["from"], row["to"], row["kind"], row["state"]) for row in links] == [
        ("b.0", "a.0", "alink", "up"),
        ("b.0", "c.0", "alink", "up"),
        ("b.0", "b.1", "ilink", "up"),
    ]
    clients = as_json("report", "clients")["clients"]
    assert [(row["broker"], row["client"], row["advertisements"], row["subscriptions"]) for row in clients] == [
        ("a.0", "feed", 1, 0),
        ("c.1", "screen", 0, 1),
    ]
    (sub,) = as_json("report", "subs")["subscriptions"]
    assert (sub["broker"], sub["client"], sub["filter"]) == ("c.1", "screen", "symbol = 'IBM' AND price > 100")
    (offer,) = as_json("report", "civ")["advertisements"]
    assert (offer["broker"], offer["client"], offer["civ"], offer["pending"]) == ("a.0", "feed", [0, 1], [])
    sizes = {row["broker"]: (row["prt"], row["clt"]) for row in as_json("report", "tables")["brokers"]}
    assert sizes == {"a.0": (0, 1), "a.1": (1, 1), "b.0": (0, 0), "b.1": (1, 0), "c.0": (0, 0), "c.1": (1, 0)}


@pytest.mark.parametrize("part", ["brokers", "links", "clients", "subs", "civ", "tables"])
def test_reports_are_tables_for_people(part: str, screen: BlockingClient) -> None:
    shown = octopia("report", part)
    assert shown.startswith("six: ")
    assert "a.0" in shown or part == "subs"


def test_a_report_of_an_unknown_broker_is_refused(running: Running) -> None:
    with pytest.raises(UnknownBroker, match=r"expected a broker of the overlay six, got 'z\.9'"):
        octopia("report", "brokers", "-b", "z.9")
    with pytest.raises(UsageError, match="expected --watch or --json, got both"):
        octopia("report", "links", "--watch", "--json")


def test_a_report_is_watched_until_ctrl_c(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def press_ctrl_c(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report.time, "sleep", press_ctrl_c)
    assert octopia("report", "links", "--watch").startswith("six: 14 links")


def test_top_is_live_until_ctrl_c(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    draw = top._table

    def draw_twice(*rows: Any) -> Any:
        if len(shown) == 2:
            raise KeyboardInterrupt
        shown.append(draw(*rows))
        return shown[-1]

    monkeypatch.setattr(top, "_table", draw_twice)
    assert "published/s" in octopia("top", "--every", "0.05")
    assert len(shown) == 2


def test_top_has_rates(screen: BlockingClient) -> None:
    is_over = threading.Event()

    def publish() -> None:
        while not is_over.is_set():
            screen.publish({"symbol": "IBM", "price": 101})

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        first, *others = as_json("top", "--once", "--every", "0.3")["brokers"]
    finally:
        is_over.set()
        publisher.join()
    assert first["broker"] == "a.0"
    assert first["published_per_s"] > 1
    assert [row["published_per_s"] for row in others] == [0.0] * 5
    by_name = as_json("top", "--once", "--every", "0.05", "--sort", "broker")["brokers"]
    assert [row["broker"] for row in by_name] == NAMES
    assert "published/s" in octopia("top", "--once", "--every", "0.05", "--sort", "queued")
    with pytest.raises(UsageError, match="expected --json with --once"):
        octopia("top", "--json")


def test_ping_measures_round_trips(running: Running) -> None:
    found = as_json("ping", "-b", "c.1", "--count", "3", "--interval", "0")
    assert (found["broker"], found["count"]) == ("c.1", 3)
    assert 0.0 < found["min_ms"] <= found["mean_ms"] <= found["max_ms"]
    lines = octopia("ping", "--count", "2", "--interval", "0").splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith("a.0: 2 round trips, min ")


def test_a_link_is_cut_and_heals(running: Running) -> None:
    def states() -> dict[tuple[str, str], str]:
        return {(row["from"], row["to"]): row["state"] for row in as_json("link", "list")}

    assert set(states().values()) == {"up"}
    # b.0 dials b.1: whichever end is told, no connection comes about.
    for ends in ("b.0:b.1", "b.1:b.0"):
        source, target = ends.split(":")
        assert as_json("link", "cut", ends)["cut"] is True
        wait_until(lambda one=source, other=target: states()[other, one] == "down")
        assert states()[source, target] == "cut"
        assert f"{source} to {target} (ilink): cut" in octopia("link", "list")
        assert octopia("link", "heal", "b.0:b.1") == "b.0 to b.1: no longer cut\n"
        wait_until(lambda: set(states().values()) == {"up"})
    with pytest.raises(RequestRefused, match=r"expected a neighbour of a.0 \(b.0, a.1\), got c.1"):
        octopia("link", "cut", "a.0:c.1")
    with pytest.raises(UsageError, match="expected a link as FROM:TO"):
        octopia("link", "cut", "a.0")


def test_a_client_that_gets_a_publication_is_explained(screen: BlockingClient) -> None:
    lines = octopia("explain", "screen", "symbol=IBM", "price=101").splitlines()
    assert lines == [
        "screen gets symbol=IBM price=101",
        "it is connected to c.1",
        "subscription (symbol = 'IBM' AND price > 100): matches",
        "feed at a.0 may publish it (symbol IS NOT NULL AND price > 0)",
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["screen", "symbol=IBM", "price=99"], "  price > 100 is false: price is 99"),
        (["screen", "symbol=IBM", "price=-1"], "no advertisement allows it, so its publisher is refused:"),
        (["screen", "symbol=IBM", "price=101", "n=1"], "which does not declare n"),
        (["feed", "symbol=IBM", "price=101"], "it has no subscriptions"),
        (["nobody", "symbol=IBM", "price=101"], "no broker has a client with this name; known clients: feed, screen"),
    ],
)
def test_a_client_that_does_not_get_it_is_explained(arguments: list[str], why: str, screen: BlockingClient) -> None:
    result = invoke("explain", *arguments)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{arguments[0]} does not get symbol=IBM ")
    assert why in result.stdout
    found = json.loads(invoke("explain", *arguments, "--json").stdout)
    assert (found["client"], found["delivered"]) == (arguments[0], False)


@pytest.fixture
def crowd(running: Running) -> Iterator[BlockingClient]:
    """A client at c.0 with 30 subscriptions and advertisements, and then one at a.0 of the same cluster."""
    with (
        connect_blocking(running.url("c.0"), name="crowd") as crowd,
        connect_blocking(running.url("a.0"), name="late") as late,
    ):
        for number in range(30):
            crowd.advertise(f"kind = 'crowd' AND n = {number}")
            crowd.subscribe(f"kind = 'crowd' AND n = {number}")
        late.subscribe("kind = 'late'")
        yield crowd


def test_reports_beyond_the_limit_have_the_rows_of_the_broker(crowd: BlockingClient) -> None:
    found = as_json("report", "subs", "-b", "a.0", "--limit", "20")
    assert [(row["broker"], row["client"]) for row in found["subscriptions"]] == [("a.0", "late")]
    assert found["total"] == 1
    assert octopia("report", "subs", "-b", "a.0", "--limit", "1").startswith("six: 1 subscription ")
    assert octopia("report", "subs", "--limit", "20").startswith("six: 21 of 31 subscriptions ")
    assert octopia("report", "civ", "--limit", "20").startswith("six: 20 of 30 advertisements ")
    assert octopia("report", "clients", "-b", "c.0", "--limit", "1").startswith("six: 1 client ")


def test_rows_that_match_come_first(crowd: BlockingClient, running: Running) -> None:
    command = Command(Verb.TABLES, rows=2, hosted=True, attributes={"kind": "crowd", "n": 29})
    (tables,) = run_loop(ask(parse_url(running.url("c.0")), command))
    for table in ("subscriptions", "advertisements"):
        assert [row["filter"] for row in tables[table]] == [
            "kind = 'crowd' AND n = 29",
            "kind = 'crowd' AND n = 0",
        ]
        assert (tables["total"][table], tables["matching"][table]) == (30, 1)


def test_an_explanation_of_many_rows_is_short(crowd: BlockingClient) -> None:
    lines = octopia("explain", "crowd", "kind=crowd", "n=29").splitlines()
    assert lines[:3] == [
        "crowd gets kind=crowd n=29",
        "it is connected to c.0",
        "subscription (kind = 'crowd' AND n = 29): matches",
    ]
    assert "and 20 more subscriptions" in lines
    assert lines[-1] == "crowd at c.0 may publish it (kind = 'crowd' AND n = 29)"
    refused = invoke("explain", "crowd", "kind=crowd", "n=-1").stdout.splitlines()
    assert refused[-1] == "and 20 more advertisements"


def test_a_scenario_is_explained_elsewhere(running: Running) -> None:
    with pytest.raises(UsageError, match=r"use octopia sim explain x\.toml"):
        octopia("explain", "x.toml", "a=1")


def test_a_publication_that_nobody_wants_is_accepted_and_told(screen: BlockingClient) -> None:
    assert octopia("pub", "symbol=SAP", "price=1").endswith(" s; no subscription matches it now\n")
    assert as_json("pub", "symbol=SAP", "price=1")["wanted"] is False
    assert as_json("pub", "symbol=IBM", "price=101", "-b", "b.0")["wanted"] is True
    assert "nobody" not in octopia("pub", "symbol=IBM", "price=101")


def test_reports_show_control_characters_as_escapes(running: Running) -> None:
    with connect_blocking(running.url("c.1")) as client:
        client.subscribe("symbol = '\x1b]0;owned\x07'")
        shown = octopia("report", "subs")
    assert r"symbol = '\x1b]0;owned\x07'" in shown
    assert "\x1b" not in shown


def test_a_trace_has_values_as_filters_have_them(running: Running) -> None:
    shown = octopia("trace", "b=true", "s=it's", "n=1", "--wait", "0.1")
    assert shown.startswith("b = TRUE, s = 'it''s', n = 1, published at a.0\n")


def test_lines_that_nobody_wants_are_counted(screen: BlockingClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, unwanted = "symbol=IBM price=101\n", "symbol=SAP price=1\n"
    for lines, remark in (
        (wanted, ""),
        (unwanted, "; no subscription matches it now"),
        (unwanted * 2, "; no subscription matches them now"),
        (wanted + unwanted * 60, "; no subscription matches 60 of them now"),
    ):
        assert octopia("pub", "--stdin", input=lines).endswith(f" s{remark}\n")
    monkeypatch.setattr(publish, "_CHECKED_MAX", 2)
    shown = octopia("pub", "--stdin", input=unwanted * 2 + wanted + unwanted)
    assert shown.endswith(" s; no subscription matches 1 of the last 2 now\n")
    found = json.loads(octopia("pub", "--stdin", "--json", input=unwanted * 2))
    assert (found["accepted"], found["checked"], found["unwanted"], found["wanted"]) == (2, 2, 2, False)


def test_brokers_of_other_machines_are_not_asked() -> None:
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        assert run_loop(is_here(Address(host)))
    for host in ("192.0.2.1", "nowhere.invalid", "a..b"):
        assert not run_loop(is_here(Address(host)))
        assert run_loop(is_wanted(Address(host), "a.0", {"x": 1})) is None


def test_names_are_looked_up_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up, is_running = socket.getaddrinfo, threading.Event()

    def wait_for_loop(*words: Any, **options: Any) -> Any:
        assert is_running.wait(PATIENCE_S), "the event loop is blocked"
        return look_up(*words, **options)

    async def run() -> None:
        asking = asyncio.create_task(is_here(Address("localhost")))
        asyncio.get_running_loop().call_soon(is_running.set)  # After it has begun to look up the name.
        assert await asking

    monkeypatch.setattr(socket, "getaddrinfo", wait_for_loop)
    asyncio.run(run())


def test_a_host_name_that_is_not_valid_is_told() -> None:
    with pytest.raises(Unavailable, match=r"no broker can be at a\.\.b:7400: the host name is not valid"):
        run_loop(ask(Address("a..b"), Command(Verb.REPORT)))
    with pytest.raises(Unavailable, match=r"the host name 'a\.\.b' cannot be resolved"):
        run_loop(connect_to(Address("a..b"), lambda: Connection(Asker())))


def test_brokers_have_names(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownBroker, match=r"expected a broker of the overlay six \(a.0, .*\), got 'x.1'"):
        octopia("pub", "x=1", "-b", "x.1")
    monkeypatch.delenv("OCTOPIA_URL")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    octopia("context", "add", "six", str(running.file))
    assert as_json("ping", "-b", "c.0", "--count", "1")["broker"] == "c.0"
    assert as_json("pub", "x=1", "-b", "b.1")["accepted"] == 1
    assert octopia("status").startswith("six: 6 of 6 brokers")
    octopia("context", "remove", "six")
    octopia("context", "add", "one", "--broker-url", running.url("b.0"))
    assert as_json("ping", "--count", "1")["broker"] == "b.0"
    assert as_json("ping", "-b", "a.1", "--count", "1")["broker"] == "a.1"


async def _until_listed(broker: Address, table: str) -> None:
    """Wait until a table of a broker has an entry."""
    async for _ in ticks(0.01):
        if (await ask(broker, Command(Verb.TABLES)))[0][table]:
            return


def test_tid_brokers_are_inspected_too() -> None:
    async def main() -> tuple[dict[str, Any], list[bool]]:
        routing = RoutingSettings(Algorithm.TID_STATIC)
        async with (
            Overlay.local("path:2", 1, routing=routing) as overlay,
            overlay.connect("a.0", name="feed") as feed,
            overlay.connect("b.0", name="screen") as screen,
        ):
            await feed.advertise("x > 0")
            here, there = (parse_url(overlay.url(each)) for each in ("a.0", "b.0"))
            await _until_listed(there, "advertisements")
            await screen.subscribe("x > 5")
            await _until_listed(here, "subscriptions")
            (tables,) = await ask(here, Command(Verb.TABLES, attributes={"x": 3}))
            wanted = [(await ask(here, Command(Verb.WANTED, attributes={"x": x})))[0]["wanted"] for x in (3, 7)]
            return tables, wanted

    tables, wanted = run_loop(main())
    (sub,), (offer,) = tables["subscriptions"], tables["advertisements"]
    assert (sub["filter"], sub["last_hop"], sub["matches"], sub["why"]) == (
        "x > 5",
        "b.0",
        False,
        ["x > 5 is false: x is 3"],
    )
    assert (offer["client"], offer["civ"], offer["matches"]) == ("feed", None, True)
    assert wanted == [False, True]


def test_the_first_broker_that_answers_is_asked(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    (nobody,) = free_ports(1)
    monkeypatch.setenv("OCTOPIA_URL", f"octopia://127.0.0.1:{nobody},{running.url('b.1')}")
    assert as_json("ping", "--count", "1")["broker"] == "b.1"
    assert as_json("ping", "-b", "c.0", "--count", "1")["broker"] == "c.0"
    assert octopia("status").startswith("six: 6 of 6 brokers")
    assert as_json("pub", "x=1")["wanted"] is False


class Subscriber:
    """``octopia sub`` in another process, after it has subscribed."""

    def __init__(self, url: str, *arguments: str):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "octopia", "sub", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OCTOPIA_URL": url},
        )
        assert self._process.stderr is not None
        assert self._process.stderr.readline() == b"subscribed; press Ctrl-C to stop\n"

    def output(self) -> tuple[bytes, bytes]:
        """Return what it has written to stdout and stderr at its end."""
        return self._process.communicate(timeout=PATIENCE_S)

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code."""
        self._process.send_signal(number)
        self.output()
        return self._process.returncode

    def line(self) -> bytes:
        """Return the next line of its output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_subscriber_in_order(running: Running, number: signal.Signals) -> None:
    name = f"ends-{number}"
    assert Subscriber(running.url("c.1"), "x = 1", "--name", name).end(number) == 0
    assert name not in octopia("report", "clients", "--url", running.url("c.1"))


def test_bytes_survive_from_a_file_and_from_stdin(running: Running, tmp_path: Path) -> None:
    payload = bytes(range(256)) * 4
    (tmp_path / "payload").write_bytes(payload)
    subscriber = Subscriber(running.url("c.1"), "kind = 'photo'", "--count", "2", "--raw")
    octopia("pub", "kind=photo", "--payload-file", str(tmp_path / "payload"))
    octopia("pub", "kind=photo", "--payload", "-", input=payload[::-1])
    assert subscriber.output() == (payload + payload[::-1], b"")
    for options in (["--payload", "x", "--payload-file", "y"], ["--payload-file", str(tmp_path / "missing")]):
        with pytest.raises(UsageError, match="expected"):
            octopia("pub", "x=1", *options)
    with pytest.raises(UsageError, match="stdin can be read once"):
        octopia("pub", "--stdin", "--payload", "-")


def test_lines_are_published_as_they_come(running: Running) -> None:
    subscriber = Subscriber(running.url("c.0"), "n >= 0", "--count", "3", "--format", "{n} {zip}")
    publisher = subprocess.Popen(
        [sys.executable, "-m", "octopia", "pub", "--stdin", "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert publisher.stdin is not None
    for number, line in enumerate([b'{"n": 0}\n', b"n=1 zip:str=01234\n", b"\nn=2 zip=01234\n"]):
        publisher.stdin.write(line)
        publisher.stdin.flush()
        assert subscriber.line().decode().strip() == (f"{number} 01234" if number else "0")
    told, _ = publisher.communicate(timeout=PATIENCE_S)
    assert json.loads(told)["accepted"] == 3
    assert subscriber.output() == (b"", b"")


def test_a_bad_line_stops_the_stream_after_those_before_it(running: Running) -> None:
    with pytest.raises(UsageError, match=r"line 3: expected NAME=VALUE.* \(2 published before it\)"):
        octopia("pub", "--stdin", input="x=1\nx=2\nx\nx=4\n")
    assert as_json_input(b"x=1\ny=2\nx=3") == 3
    with pytest.raises(UsageError, match="line 1: expected UTF-8, got the byte 0xff"):
        octopia("pub", "--stdin", input=b"\xff")


def as_json_input(lines: bytes) -> int:
    return int(json.loads(octopia("pub", "--stdin", "--rate", "1000", "--json", input=lines))["accepted"])


@pytest.mark.parametrize("broker", ["a.0", "c.1"])
def test_a_doubtful_filter_warns_beside_the_advertisements_of_the_overlay(
    screen: BlockingClient, running: Running, broker: str
) -> None:
    subscriber = Subscriber(running.url(broker), "price > '100' OR symbol = 'end'", "--count", "1")
    screen.publish({"symbol": "end", "price": 1})
    _, told = subscriber.output()
    assert told.decode() == (
        "warning: price > '100' compares with a string, but price is a number in the advertisement (price > 0): "
        "write price > 100\n"
    )


def test_a_command_says_whom_it_waits_for_and_gives_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"octopia://127.0.0.1:{silent.getsockname()[1]}"
        result = CliRunner().invoke(app, ["sub", "x = 1", "--url", f"{url}/b.0", "--timeout", "1.2"])
    assert isinstance(result.exception, Unavailable)
    assert "waiting for b.0\n" in result.output
    with pytest.raises(Unavailable, match=r"tried for 0.1 s"):
        octopia("pub", "x=1", "--url", url, "--timeout", "0.1")
