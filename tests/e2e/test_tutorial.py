"""The tutorial, from its first block to its last: every command is run, and prints what the page shows.

The brokers listen at free ports instead of those on the page. Times and the counts of ``octopia status`` differ between
runs; everything else is compared line by line.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BROKERS = [f"{region}.{cluster}" for region in ("lon", "nyc", "tok") for cluster in range(3)]
FIRST_PORT = 7400
PATIENCE_S = 60.0


class Terminal:
    """A command that keeps running, and its output."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str]):
        self.process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._output: list[str] = []
        self._is_over = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """The output so far."""
        return "".join(self._output)

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition on the output holds; fail at once when the output ends without it."""
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._is_over, PATIENCE_S)
        assert condition(), f"expected {what}, got {self.output!r}"

    def wait(self) -> None:
        """Wait until the command ends and all its output is read."""
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._output.append(line)
                    self._changed.notify()
        with self._changed:
            self._is_over = True
            self._changed.notify()


class Terminals:
    """A folder with the files of the tutorial, and the processes that run in it."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in BROKERS]
        self.ports = [each.getsockname()[1] for each in sockets]
        for each in sockets:
            each.close()
        self.running: list[Terminal] = []
        inherited = {name: value for name, value in os.environ.items() if name != "OCTOPIA_URL"}
        self.environment = inherited | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "COLUMNS": "80",
            "TERM": "dumb",
        }

    def write_overlay(self, text: str) -> None:
        """Write the overlay file of the page, with the ports that are free here."""
        addresses = zip(BROKERS, self.ports, strict=True)
        text += "".join(f'[brokers."{broker}"]\nport = {port}\n' for broker, port in addresses)
        (self.folder / "overlay.toml").write_text(text)

    def start(self, command: str) -> Terminal:
        """Start a command that keeps running."""
        self.running.append(Terminal(self._arguments(command), self.folder, self.environment))
        return self.running[-1]

    def run(self, command: str) -> str:
        """Run a command to its end, and return its output."""
        done = subprocess.run(
            self._arguments(command),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def stop(self) -> list[Terminal]:
        """Press Ctrl-C in all terminals, in the order in which they were opened, and return them."""
        for each in self.running:
            if each.process.poll() is None:
                each.process.send_signal(signal.SIGINT)
        for each in self.running:
            each.wait()
        stopped, self.running = self.running, []
        return stopped

    def as_shown(self, text: str) -> list[str]:
        """Return the lines of an output with the ports of the page, and without times."""
        for number, port in enumerate(self.ports):
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{FIRST_PORT + number}")
        text = re.sub(r"\b\d+\.\d+ s\b", "N s", text)
        return [line.rstrip() for line in text.rstrip().splitlines()]

    def _arguments(self, command: str) -> list[str]:
        for number, port in enumerate(self.ports):
            command = command.replace(f"127.0.0.1:{FIRST_PORT + number}", f"127.0.0.1:{port}")
        program, *arguments = shlex.split(command)
        return [sys.executable, *(["-m", "octopia"] if program == "octopia" else []), *arguments]


def wait_for(terminal: Terminal, line: str, terminals: Terminals) -> None:
    """Wait until a line of the page is in the output of a command that keeps running."""
    terminal.wait_for(lambda: line in terminals.as_shown(terminal.output), repr(line))


def commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def cells(table: list[str]) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in table]
    return {row[0]: row[1:] for row in rows if row}


def has_rerouted(status: list[str]) -> bool:
    """Return whether the link from lon.0 to lon.1 is congested, and publications were rerouted."""
    table = cells(status)
    lon = dict(zip(table["broker"], table["lon.0"], strict=True))
    return lon["congested links"] == "lon.1" and int(lon["rerouted"]) > 0


def check_status(terminals: Terminals, shown: list[str]) -> None:
    """Check that the status is soon as shown: the same brokers and columns, and publications that were rerouted."""
    deadline = time.monotonic() + PATIENCE_S
    while not has_rerouted(status := terminals.as_shown(terminals.run("octopia status"))):
        assert time.monotonic() < deadline, "\n".join(status)
    assert has_rerouted(shown)
    assert status[:3] == shown[:3]
    assert list(cells(status)) == list(cells(shown))


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    opened = Terminals(tmp_path)
    yield opened
    for each in opened.running:
        if each.process.poll() is None:
            each.process.kill()
            each.wait()


def test_the_tutorial(terminals: Terminals) -> None:
    for language, text in BLOCKS:
        if language == "toml" and "[overlay]" not in text:
            terminals.write_overlay(text)
        elif language == "text":
            if "stopping" in text:
                check_the_end(terminals, text)
            else:
                wait_for(terminals.running[-1], text.strip(), terminals)
        elif language == "console":
            for command, shown in commands(text):
                play(command, shown, terminals)
    _, killed, subscriber, _ = terminals.running
    subscriber.wait_for(lambda: '{"gap": {"cause": "restart", "count": null}}' in subscriber.output, "a notice")
    assert [each["hops"] for each in received_by(subscriber)] == [2, 4]
    stopped = terminals.stop()
    assert [each.process.returncode for each in stopped if each is not killed] == [0, 0, 0]


def check_the_end(terminals: Terminals, shown: str) -> None:
    """Stop ``octopia up`` and everything else, once all publications have arrived."""
    check_deliveries(terminals.running[1])
    terminals.running[-1].wait()
    stopped = terminals.stop()
    assert terminals.as_shown(stopped[0].output)[-2:] == terminals.as_shown(shown)
    assert [each.process.returncode for each in stopped] == [0, 0, 0, 0]


def play(command: str, shown: str, terminals: Terminals) -> None:
    """Run a command and compare its output; one without output keeps running in its own terminal."""
    expected = terminals.as_shown(shown)
    if command.startswith(("octopia up", "octopia sub", "octopia broker")):
        wait_for(terminals.start(command.removesuffix(" &")), expected[0], terminals)
    elif command == "kill -9 %1":
        kill(terminals)
    elif command == "octopia status":
        check_status(terminals, expected)
    elif not expected:
        terminals.start(command)
    else:
        assert terminals.as_shown(terminals.run(command)) == expected, command


def kill(terminals: Terminals) -> None:
    """Kill lon.0 once the first publication has arrived, and wait until its four neighbours have noticed."""
    others, background, subscriber = terminals.running
    subscriber.wait_for(lambda: len(received_by(subscriber)) == 1, "the first publication")
    background.process.kill()
    background.wait()
    lost = re.compile(r"event=connection_lost .*neighbour=lon\.0")
    others.wait_for(lambda: len(lost.findall(others.output)) == 4, "four links that went down")


def received_by(subscriber: Terminal) -> list[dict[str, Any]]:
    """Return the publications that a subscriber has printed so far."""
    lines = [json.loads(line) for line in subscriber.output.splitlines() if line.startswith("{")]
    return [each for each in lines if "id" in each]


def check_deliveries(subscriber: Terminal) -> None:
    """Check that the subscriber in cluster 1 received everything once; a busy machine may cause longer ways."""
    subscriber.wait_for(lambda: subscriber.output.count("\n{") >= 1001, "1001 publications")
    received = received_by(subscriber)
    assert len({each["id"] for each in received}) == len(received) == 1001
    assert min(each["hops"] for each in received) == 2


def test_the_page_shows_the_files_as_they_are() -> None:
    shown = [text for language, text in BLOCKS if language in ("toml", "python")]
    assert (ROOT / "examples/hello.py").read_text() in shown
    assert (ROOT / "examples/cities.toml").read_text() in shown
    assert sorted({language for language, _ in BLOCKS}) == ["console", "python", "shell", "text", "toml"]
