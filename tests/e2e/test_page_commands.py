"""Every command of README.md and docs/*.md is run by a test: by that of its page, here, or by one that is named here.

Commands run here use free ports in place of 7400 and up, and a folder of the test. What cannot be run in a test has
its reason in ``NOT_RUN``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorders import until

from octopia.experiments.local_overlay import free_addresses
from octopia.overlay.files import Overlay, load_overlay, overlay_from_text
from octopia.records.archive import spool_of
from octopia.records.spool import SpoolReader
from support import ROOT

PATIENCE_S = 120
WHOLE_PAGES = {
    "docs/operating.md": "tests/network/test_operating_page.py",
    "docs/scenarios.md": "tests/unit/test_documentation.py",
    "docs/tutorial.md": "tests/e2e/test_tutorial.py",
}
"""The pages whose commands are all run by a test of the page."""
RUN_HERE = {
    "README.md": r"octopia (up|sub|pub|status|sim|spool|archive|history) ?",
    "docs/live-map.md": r"octopia (up|broker|token) |curl ",
    "docs/network.md": r"octopia ",
    "docs/overlay-files.md": r"octopia ",
    "docs/records.md": r"octopia (spool|consumers|archive|history|replay) ",
    "docs/security.md": r"octopia |export ",
}
"""The commands that the tests below run, as they stand on the page."""
ELSEWHERE = {
    r"octopia data pipeline ": ("tests/pipeline/test_local_cluster.py", '"pipeline"'),
    r"octopia data workload ": ("tests/pipeline/test_pipeline_commands.py", '"workload"'),
    r"octopia data truth ": ("tests/pipeline/test_pipeline_commands.py", '"truth"'),
    r"octopia data sweep ": ("tests/pipeline/test_pipeline_commands.py", '"sweep"'),
    r"octopia data metrics ": ("tests/pipeline/test_pipeline_commands.py", '"metrics"'),
    r"octopia data audit ": ("tests/pipeline/test_pipeline_commands.py", '"audit"'),
    r"octopia data play ": ("tests/pipeline/test_pipeline_commands.py", '"play"'),
    r"octopia demo --live": ("tests/e2e/test_page_commands.py", "octopia demo --live --http 0"),
    r"octopia demo --out": ("tests/unit/experiments/test_demo_command.py", '["demo", "--out"'),
    r"octopia topology show ": ("tests/unit/overlay/test_topology_command.py", '["topology", "show"'),
    r"octopia paper": ("tests/pipeline/test_paper_command.py", '"paper", "burst"'),
    r"octopia scale( --scale tiny| --spark|$)": ("tests/unit/experiments/test_scale_command.py", '["scale", "--scale"'),
    r"octopia bench": ("tests/network/test_measuring.py", '"bench", "path:2"'),
    r"octopia outbox ": ("tests/network/test_outbox_command.py", '"outbox"'),
    r"octopia sim (run|compare|explain) ": ("tests/e2e/test_cli.py", '"sim", "compare"'),
    r"python benchmarks/bursts": ("tests/simulation/test_benchmark_bursts.py", 'load_benchmark("bursts"'),
    r"python benchmarks/slow_links": ("tests/network/test_benchmark_slow_links.py", 'load_benchmark("slow_links"'),
    r"python benchmarks/dead_brokers": (
        "tests/network/test_benchmark_dead_brokers.py",
        'load_benchmark("dead_brokers"',
    ),
    r"python benchmarks/network": ("tests/network/test_benchmark_network.py", 'load_benchmark("network"'),
    r"python benchmarks/peers": ("tests/network/test_benchmark_peers.py", 'load_benchmark("peers"'),
    r"python tests/simulation/random_faults": ("tests/simulation/test_faults.py", "random_faults.main"),
    r"python tests/simulation/replay_scenario": ("tests/simulation/test_random_scenarios.py", "replay_scenario"),
    r"python -m octopia.simulator.search": ("tests/unit/simulator/test_search_model.py", "search.__main__ import main"),
}
"""The commands that other tests run with smaller inputs: the file of the test, and how it runs the command."""
NOT_RUN = {
    r"make (demo|test)$": "it runs this test",
    r"pip install ": "tests have no network; the extras are compared with pyproject.toml",
    r"(git worktree|apt-get) ": "it is about another version, or other software",
    r"octopia scale --scale full": "it takes an hour",
    r"podman (build|run) ": "it needs a container engine and a registry of images",
}
"""The commands that no test runs, each with the reason."""

_BLOCK = re.compile(r"^```(?:console|shell|sh|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", *(f"docs/{each.name}" for each in sorted(ROOT.glob("docs/*.md")))]


def commands(page: str) -> list[str]:
    """Return the commands of a page, without comments; those after a dollar sign have their output below.

    A line that ends with a backslash is one command with the next.
    """
    found: list[str] = []
    for block in _BLOCK.findall((ROOT / page).read_text()):
        lines = re.sub(r" *\\\n *", " ", block).splitlines()
        is_session = any(line.startswith("$ ") for line in lines)
        found += [line for line in lines if (line.startswith("$ ") if is_session else line.strip())]
    return [re.sub(r" +# .*", "", line.removeprefix("$ ")).strip() for line in found]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_run_by_a_test(page: str) -> None:
    if page in WHOLE_PAGES:
        assert Path(page).name in (ROOT / WHOLE_PAGES[page]).read_text()
        return
    lost = [
        command
        for command in commands(page)
        if not (page in RUN_HERE and re.match(RUN_HERE[page], command))
        and not any(re.match(pattern, command) for pattern in (*ELSEWHERE, *NOT_RUN))
    ]
    assert lost == [], "expected a test for each command, got commands that none runs"


def test_tests_that_are_named_run_the_command() -> None:
    missing = [test for test, text in ELSEWHERE.values() if text not in (ROOT / test).read_text()]
    assert missing == []


def test_the_readme_names_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r'pip install "\.\[([\w,]+)\]"', (ROOT / "README.md").read_text())
    assert {each for group in named for each in group.split(",")} == set(extras) - {"dev", "docs"}


def test_no_rule_is_left_over() -> None:
    all_commands = [command for page in PAGES if page not in WHOLE_PAGES for command in commands(page)]
    for pattern in (*ELSEWHERE, *NOT_RUN):
        assert any(re.match(pattern, command) for command in all_commands), pattern


class Session:
    """A folder in which commands of a page run, with brokers at free ports instead of 7400, 7401 and so on."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "COLUMNS": "200"}
        self.ports: dict[int, int] = {}
        self._running: list[subprocess.Popen[str]] = []

    def port(self, shown: int) -> int:
        """Return the port that stands for one of the page."""
        if shown not in self.ports:
            self.ports[shown] = free_addresses(1)[0].port
        return self.ports[shown]

    def place(self, overlay: Overlay, more: str = "") -> None:
        """Write overlay.toml for an overlay whose brokers are at free ports."""
        self.ports |= {7400 + at: each.port for at, each in enumerate(free_addresses(len(overlay.scot.brokers)))}
        places = [f'[brokers."{each}"]\nport = {self.port(7400 + at)}' for at, each in enumerate(overlay.scot.brokers)]
        tree = ", ".join("-".join(edge) for edge in overlay.scot.tree.edges)
        text = f'name = "shown"\ntree = "{tree}"\nclusters = {overlay.scot.clusters}\n' + "\n".join(places)
        (self.folder / "overlay.toml").write_text(f"{text}\n{more}")
        self.environment["OCTOPIA_URL"] = f"octopia://127.0.0.1:{self.port(7400)}"

    def words(self, command: str) -> list[str]:
        """Return the words of a command, with the ports of this session and a tree as a file."""
        words = shlex.split(re.sub(r"\b7[45]\d\d\b", lambda found: str(self.port(int(found[0]))), command))
        if words[:2] == ["octopia", "up"] and words[2] != "overlay.toml":
            clusters = int(words.pop(words.index("--clusters") + 1)) if "--clusters" in words else None
            if clusters is not None:
                words.remove("--clusters")
            self.place(overlay_from_text(words[2], clusters))
            words[2] = "overlay.toml"
        return [sys.executable, "-m", "octopia", *words[1:]] if words[0] == "octopia" else words

    def run(self, command: str, code: int = 0, cwd: Path | None = None) -> str:
        """Run a command to its end, and return what it prints."""
        done = subprocess.run(
            self.words(command),
            cwd=cwd or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command: str, said: str) -> subprocess.Popen[str]:
        """Start a command that keeps running, and wait until it has said something."""
        process = subprocess.Popen(
            self.words(command),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._running.append(process)
        assert process.stdout is not None
        while said not in (line := process.stdout.readline()):
            assert line, f"{command} ended before it said {said!r}"
        return process

    def end(self, process: subprocess.Popen[str]) -> str:
        """Press Ctrl-C, and return what a command has printed since it was started."""
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=PATIENCE_S)[0]
        self._running.remove(process)
        return told

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End a command that knows no Ctrl-C, or has failed."""
        self._running.remove(process)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        process.kill()

    def close(self) -> None:
        """End all commands that are left."""
        for process in list(self._running):
            self.kill(process)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    opened = Session(tmp_path)
    yield opened
    opened.close()


@contextlib.contextmanager
def up(session: Session, command: str, codes: tuple[int, ...] = (0,)) -> Iterator[None]:
    """Run the brokers of a command for a block; they must end with one of these codes."""
    process = session.start(command, "listens at" if " broker " in command else "brokers are up")
    yield
    told = session.end(process)
    assert process.returncode in codes, told


def chosen(page: str, *verbs: str) -> list[str]:
    """Return the commands of a page with one of these verbs, in order."""
    return [each for each in commands(page) if each.split()[1] in verbs]


def wait_for_row(session: Session, spool: str, archive: str) -> None:
    """Wait until both recorders have a row on disk."""
    folders = [session.folder / shlex.split(spool)[-1], spool_of(session.folder / shlex.split(archive)[-1])]
    asyncio.run(until(lambda: all(SpoolReader(each).end_offset for each in folders)))


def test_readme(session: Session) -> None:
    (start,) = chosen("README.md", "up")
    (subscribe,), (publish,), (status,) = (chosen("README.md", each) for each in ("sub", "pub", "status"))
    with up(session, f"{start} --plain"):
        subscriber = session.start(subscribe, "subscribed")
        (spool,), (archive,) = chosen("README.md", "spool"), chosen("README.md", "archive")
        spooling, archiving = session.start(spool, "recording from row"), session.start(archive, "archiving from row")
        assert session.run(publish).startswith("1 accepted")
        assert "tok.2" in session.run(status)
        wait_for_row(session, spool, archive)
        session.end(spooling)
        session.end(archiving)
        assert "101.5" in session.end(subscriber)
    (history,) = chosen("README.md", "history")
    assert "101.5" in session.run(re.sub(r" --from \S+", "", history))
    assert len(list((session.folder / "spool/expensive").iterdir())) > 0
    for command in chosen("README.md", "sim"):
        assert session.run(command, cwd=ROOT)


def test_running_overlays(session: Session) -> None:
    session.place(overlay_from_text("path:3", 4))
    for command in chosen("docs/network.md", "broker"):
        with up(session, command):
            pass
    first, *others = chosen("docs/network.md", "up")
    (subscribe,), (publish,) = chosen("docs/network.md", "sub"), chosen("docs/network.md", "pub")
    with up(session, first):
        subscriber = session.start(subscribe, "subscribed")
        session.run(publish)
        assert "50 publications per second" in session.run(chosen("docs/network.md", "link")[0])
        assert "no limit" in session.run(chosen("docs/network.md", "link")[1])
        assert "101.5" in session.end(subscriber)
    for command in others:
        with up(session, command):
            assert session.run("octopia status --json")


def test_overlay_files(session: Session) -> None:
    session.place(overlay_from_text("path:2", 2))
    for command in commands("docs/overlay-files.md"):
        assert "overlay.toml" in session.run(command)


def test_live_and_historic_data(session: Session) -> None:
    session.place(overlay_from_text("path:2", 1))
    spool, archive, history, replay = (
        chosen("docs/records.md", each)[0] for each in ("spool", "archive", "history", "replay")
    )
    # The last publication is kept for both recorders, which are gone: brokers may say at their end that it is lost.
    with up(session, "octopia up overlay.toml --plain", codes=(0, 1)):
        recording = [session.start(spool, "recording from row"), session.start(archive, "archiving from row")]
        session.run("octopia pub symbol=IBM price=101.5")
        wait_for_row(session, spool, archive)
        for each in recording:
            session.end(each)
        SpoolReader(session.folder / shlex.split(spool)[-1]).consumers.commit("report", 0)
        assert "no consumers" in session.run(chosen("docs/records.md", "consumers")[0])
        years = (r"2026-11-18(T09:30)?", "2020-01-01"), (r"2026-11-19", "2200-01-01")
        for shown, meant in years:
            history, replay = re.sub(shown, meant, history), re.sub(shown, meant, replay)
        assert "101.5" in session.run(history)
        subscriber = session.start('octopia sub "price > 0" -b b.0', "subscribed")
        session.run(replay)
        assert "101.5" in session.end(subscriber)


def secure(session: Session) -> None:
    """Do what docs/security.md says, up to a protected overlay in overlay.toml."""
    (text,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs/security.md").read_text(), re.MULTILINE | re.DOTALL)
    (session.folder / "overlay.toml").write_text(text)
    described = load_overlay_without_files(session, text)
    for command in chosen("docs/security.md", "cert", "token"):
        told = session.run(command)
        if " feed " in command:
            (token,) = re.findall(r"\bfeed\.\S+", told)
            session.environment |= {"OCTOPIA_TOKEN": token, "OCTOPIA_CA": "certs/ca.pem"}
    session.place(described, text[text.index("[security]") :])
    session.environment["OCTOPIA_URL"] = f"octopias://127.0.0.1:{session.port(7400)}/a.0"


def load_overlay_without_files(session: Session, text: str) -> Overlay:
    file = session.folder / "plain.toml"
    file.write_text(text[: text.index("[security]")])
    return load_overlay(file)


def test_security(session: Session) -> None:
    secure(session)
    (publish,) = chosen("docs/security.md", "pub")
    assert any(
        each.startswith("export OCTOPIA_CA=certs/ca.pem OCTOPIA_TOKEN=feed.") for each in commands("docs/security.md")
    )
    assert "are valid for" in session.run("octopia config check overlay.toml")
    with up(session, "octopia up overlay.toml --plain"):
        brokers = [f"{region}.{cluster}" for region in "abc" for cluster in range(2)]
        at = 7400 + brokers.index(publish.rpartition("/")[2])
        told = session.run(publish.replace("broker3.example.com:7400", f"127.0.0.1:{at}"))
        assert told.startswith("1 accepted")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_live_map(session: Session) -> None:
    protected = commands("docs/live-map.md").index("octopia token add tokens.toml ops --role operator")
    (feed,) = [each for each in commands("docs/live-map.md") if each.startswith("curl -N")]
    session.place(overlay_from_text("path:3", 4))
    for command in chosen("docs/live-map.md", "up", "broker")[:2]:
        if " up " in command:
            command = f"{command} --plain"
        with up(session, command):
            session.kill(session.start(feed, '"type":"hello"'))
    add, start, scrape = commands("docs/live-map.md")[protected : protected + 3]
    secure(session)
    (token,) = re.findall(r"\bops\.\S+", session.run(add))
    with up(session, f"{start} --plain"):
        told = session.run(f"{scrape.replace('ops.…', token)} --silent")
        assert 'octopia_broker_running{broker="a.0"} 1.0' in told
        assert "expected the token of an operator" in session.run(f"{scrape} --silent")


def test_the_demo_offers_the_live_map(session: Session) -> None:
    demo = session.start("octopia demo --live --http 0", "in a browser")
    session.end(demo)
    assert demo.returncode == 0
