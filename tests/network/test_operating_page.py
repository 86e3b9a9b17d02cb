"""The page about operating overlays: every command is run in turn, and prints what the page shows.

The brokers listen at free ports instead of those on the page, and times differ between runs.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import free_ports
from typer.testing import CliRunner

from octopia.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BROKERS = [f"{region}.{cluster}" for region in "abc" for cluster in range(2)]
FIRST_PORT = 7400
PATIENCE_S = 60


class Page:
    """A folder with the files of the page, and the commands that keep running."""

    def __init__(self, folder: Path):
        self.ports = free_ports(len(BROKERS))
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []

    def write_overlay(self, text: str) -> None:
        places = zip(BROKERS, self.ports, strict=True)
        brokers = "".join(f'[brokers."{broker}"]\nport = {port}\n' for broker, port in places)
        (self.folder / "overlay.toml").write_text(text + brokers)

    def start(self, arguments: list[str]) -> str:
        """Start a command that keeps running, and return its first line."""
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.running.append(process)
        assert process.stdout is not None
        return "" if "pub" in arguments else process.stdout.readline()

    def stop(self) -> list[str]:
        """End the commands, the overlay last, and return their output."""
        told = []
        for process in reversed(self.running):
            process.send_signal(signal.SIGINT)
            told.append(process.communicate(timeout=PATIENCE_S)[0])
        self.running.clear()
        return told[::-1]

    def as_shown(self, text: str) -> list[str]:
        for number, port in enumerate(self.ports):
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{FIRST_PORT + number}")
        text = re.sub(r"\b\d+\.\d+ (s|ms)\b", r"N \1", text)
        text = re.sub(r"\b(trace-)[0-9a-f]+", r"\1N", text)
        text = re.sub(r"\b([a-z]\.\d)/\d+/\d+", r"\1/N/N", text)
        # The width of a column depends on the screen.
        text = re.sub(r"([━─]){2,}", r"\1", text)
        return [re.sub(r" +", " ", line).rstrip() for line in text.rstrip().splitlines()]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OCTOPIA_URL", raising=False)
    opened = Page(tmp_path)
    yield opened
    for each in opened.running:
        each.kill()
        each.communicate()


def wait_for_feed() -> None:
    """Wait until the publisher in the background has advertised."""
    while "feed" not in CliRunner().invoke(app, ["report", "civ"]).output:
        pass


def test_the_page(page: Page) -> None:
    commands = 0
    for language, text in BLOCKS:
        if language == "toml":
            page.write_overlay(text)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            arguments = shlex.split(command.removesuffix(" &"))
            commands += 1
            if command.endswith("&") or arguments[1] == "up":
                told = page.start(arguments)
            else:
                told = CliRunner().invoke(app, arguments[1:], env={"COLUMNS": "90", "TERM": "dumb"}).stdout
            assert page.as_shown(told) == page.as_shown(shown), command
            if "feed" in arguments:
                wait_for_feed()
    assert commands > 12
    _, subscriber, _ = page.stop()
    assert "IBM 101.50\n" in subscriber
    assert (page.folder / "octopia" / "contexts.toml").exists()
