"""The documentation is true: its scenarios run, its commands print what it shows, its links work, its site builds."""

import dataclasses
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.overlay.files import load_overlay
from octopia.runtime.admission import DESKS_MAX
from octopia.runtime.eventlog import EventKind
from octopia.runtime.operating import IDLE_S
from octopia.scenario import _EVENT_KINDS, SimulatorSettings, load_scenario
from octopia.settings import Algorithm, ResourceLimits
from octopia.simulator.profiles import PAPER, find_profile
from octopia.simulator.run import run_scenario
from octopia.trace import COLUMNS
from octopia.transport.connection import GREETING_S, HANDSHAKE_S
from octopia.transport.tls import TLS_S

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_PATH = re.compile(r"`((?:src|tests|docs|examples)/[\w./-]+)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: str, language: str) -> list[str]:
    found = _BLOCK.finditer((ROOT / page).read_text())
    return [each["text"] for each in found if each["language"] == language]


def prose(page: str) -> str:
    """Return a page as one line."""
    return " ".join((ROOT / page).read_text().split())


def is_scenario(text: str) -> bool:
    return {"overlay", "client"} <= tomllib.loads(text).keys()


def shown_commands(page: str) -> list[tuple[str, str]]:
    """Return the commands after a dollar sign, each with the output below it."""
    commands = []
    for text in blocks(page, "console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            commands.append((command, output))
    return commands


def without_trailing_spaces(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def anchors(page: Path) -> list[str]:
    """Return the names under which the headings of a page can be reached."""
    prose = _BLOCK.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


SCENARIOS = [
    (page, text)
    for page in ("docs/scenarios.md", "docs/scenario-files.md", "docs/tutorial.md")
    for text in blocks(page, "toml")
    if is_scenario(text)
]
COMMANDS = [*shown_commands("docs/scenarios.md"), *shown_commands("docs/simulator.md")]


def test_there_is_something_to_test():
    assert len(SCENARIOS) >= 3
    assert [shlex.split(command)[1] for command, _ in COMMANDS] == ["topology", "sim", "sim", "sim", "sim"]
    assert len(PAGES) >= 10


@pytest.mark.parametrize(("page", "text"), SCENARIOS, ids=[page for page, _ in SCENARIOS])
def test_scenarios_run_and_deliver_what_they_should(page: str, text: str, tmp_path: Path):
    file = tmp_path / "shown.toml"
    file.write_text(text)
    run = run_scenario(load_scenario(file), check=True)
    assert run.recorder.deliveries
    assert run.complaints() == []


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_commands_print_what_the_page_shows(command: str, output: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command)
    assert program == "octopia"
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0
    assert without_trailing_spaces(result.output) == without_trailing_spaces(output)


def test_the_page_shows_the_market_in_full():
    assert (ROOT / "examples/market.toml").read_text() in blocks("docs/scenarios.md", "toml")


def test_the_page_shows_the_outage_as_it_is():
    shown = [text for text in blocks("docs/scenarios.md", "toml") if "crash" in text]
    assert len(shown) == 1
    assert (ROOT / "examples/outage.toml").read_text().endswith(shown[0])


def test_the_readme_is_short_and_its_program_runs():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    (program,) = blocks("README.md", "python")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, "101.5\n"), run.stderr


def test_the_site_builds_without_warnings():
    build = subprocess.run(
        [sys.executable, ROOT / "docs/tools/build.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert build.returncode == 0, build.stdout + build.stderr
    assert "No issues found" in build.stderr
    site = ROOT / "out/site"
    assert "publish_many" in (site / "api/client.html").read_text()
    assert (site / "architecture.html").exists()
    for page in sorted(site.rglob("*.html")):
        for loaded in re.findall(r"""(?:src=|<link[^>]* href=)["']?((?:https?:)?//[^"'\s>]+)""", page.read_text()):
            assert "localhost" in loaded, f"{page.name} loads {loaded}"


def test_nobody_misses_anything_in_the_outage_and_one_publication_goes_around_the_cut():
    run = run_scenario(load_scenario(ROOT / "examples/outage.toml"), check=True)
    assert run.complaints() == []
    assert len(run.recorder.deliveries) == 8
    assert [hop.publication for hop in run.recorder.hops if hop.civ] == [1]
    assert run.messages()["sync"] > 0


@pytest.mark.parametrize("algorithm", [Algorithm.TID_STATIC, Algorithm.TID_DYNAMIC])
def test_the_rival_runs_the_market_and_serves_the_same_clients(algorithm: Algorithm):
    scenario = load_scenario(ROOT / "examples/market.toml")
    ours, theirs = (
        sorted((each.publication, each.subscription) for each in run_scenario(one).recorder.deliveries)
        for one in (scenario, scenario.with_algorithm(algorithm))
    )
    assert theirs == ours


def test_every_event_and_every_key_of_the_simulator_is_described():
    text = (ROOT / "docs/scenario-files.md").read_text()
    for name in (*_EVENT_KINDS, *(field.name for field in dataclasses.fields(SimulatorSettings))):
        assert f"\n| `{name}` |" in text, name


def test_every_limit_and_every_event_of_the_log_is_described():
    text = (ROOT / "docs/overlay-files.md").read_text()
    for field in dataclasses.fields(ResourceLimits):
        assert re.search(rf"\n\| `{field.name}` \| \w+ \| {field.default:,.15g} \|", text), field.name
    text = (ROOT / "docs/network.md").read_text()
    for kind in EventKind:
        assert f"\n| `{kind}` |" in text, kind


def test_the_market_reroutes_because_of_its_own_traffic():
    scenario = load_scenario(ROOT / "examples/market.toml")
    assert scenario.links == ()
    run = run_scenario(scenario, check=True)
    assert run.complaints() == []
    assert any(hop.civ for hop in run.recorder.hops)
    assert [each.publication for each in run.recorder.refused] == [1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_toml_blocks_are_toml(page: Path):
    for text in blocks(name_of(page), "toml"):
        tomllib.loads(text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path):
    prose = _BLOCK.sub("", page.read_text())
    for link in _LINK.finditer(prose):
        path, _, anchor = link["target"].partition("#")
        if path.startswith("https:"):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link["target"]
        assert not anchor or anchor in anchors(target), link["target"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_that_are_named_exist(page: Path):
    for path in _PATH.findall(page.read_text()):
        assert (ROOT / path).exists(), path


def test_the_map_and_the_notes_name_files():
    for page in ("docs/paper-map.md", "docs/paper-notes.md"):
        assert len(_PATH.findall((ROOT / page).read_text())) >= 10


def test_every_departure_cited_in_the_code_is_explained():
    explained = re.findall(r"^## (D\d+):", (ROOT / "docs/paper-notes.md").read_text(), re.MULTILINE)
    assert explained == [f"D{number}" for number in range(1, 11)]
    for file in sorted(ROOT.glob("src/octopia/**/*.py")):
        for cited in re.findall(r"\bD\d{1,2}\b", file.read_text()):
            assert cited in explained, f"{file.name}: {cited}"


def test_the_trace_columns_are_all_described_in_order():
    text = (ROOT / "docs/simulator.md").read_text()
    table = text.split("| column |")[1].split("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == COLUMNS


def test_the_profile_of_the_paper_is_shown_as_it_is_and_others_can_be_read(tmp_path: Path):
    paper, *examples = blocks("docs/simulator.md", "toml")
    for number, text in enumerate(examples):
        example = tmp_path / f"{number}.toml"
        example.write_text(text)
        find_profile(str(example))
    assert len(examples) == 3
    file = tmp_path / "paper.toml"
    file.write_text(paper)
    assert find_profile(str(file)).assumptions() | {"description": PAPER.description} == PAPER.assumptions()


def test_overlay_files_that_are_shown_can_be_read(tmp_path: Path):
    shown = [text for text in blocks("docs/overlay-files.md", "toml") if "tree" in tomllib.loads(text)]
    assert shown
    for text in shown:
        file = tmp_path / "overlay.toml"
        file.write_text(text)
        load_overlay(file)


def test_the_time_limits_of_a_handshake_are_as_documented() -> None:
    words = {2.0: "two", 4.0: "four"}
    for page, sentence, limit_s in (
        ("docs/network.md", "must identify itself within {} seconds", GREETING_S),
        ("docs/overlay-files.md", "must greet within {} seconds", GREETING_S),
        ("docs/network.md", "wait up to {} seconds for the answer", HANDSHAKE_S),
        ("docs/security.md", "A TLS handshake must finish within {} seconds", TLS_S),
    ):
        assert sentence.format(words[limit_s]) in prose(page), page


def test_the_limits_of_clients_that_send_commands_are_as_documented() -> None:
    page = prose("docs/overlay-files.md")
    assert f"may have {DESKS_MAX} such connections per broker" in page
    assert f"without a command for {IDLE_S:g} seconds" in page
