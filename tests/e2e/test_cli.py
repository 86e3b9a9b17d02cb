"""The real command, as a process of its own: what it prints, how it fails, and that it always does the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import EXAMPLES

OCTOPIA = Path(sys.executable).parent / "octopia"
FILES = sorted(EXAMPLES.glob("*.toml"))

GOOD = """
[overlay]
tree = "a-b"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "S"
broker = "b.1"
subscribe = ["x > 5"]
"""


def octopia(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; wide enough that no line is broken."""
    return subprocess.run(
        [OCTOPIA, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str, name: str = "scenario.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


BAD_INPUT = {
    "a cyclic tree": (GOOD.replace('"a-b"', '"a-b, b-c, c-a"'), ["[overlay]", "cycle"]),
    "an unknown broker": (GOOD.replace('"b.1"', '"z.1"'), ["[[client]] number 2", "z.1"]),
    "an unparsable filter": (GOOD.replace("x > 5", "x > > 5"), ["[[client]] number 2, subscribe number 1", "^"]),
    "a filter over a limit": (
        GOOD.replace("x > 5", " AND ".join(["x > 5"] * 80)),
        ["[[client]] number 2, subscribe number 1", "200 tokens"],
    ),
    "a NaN": (GOOD + '[[event]]\nclient = "P"\npublish = { x = nan }\n', ["[[event]] number 1", "publish"]),
    "a misspelt key": (GOOD.replace("subscribe", "subscrbe"), ["[[client]] number 2", 'did you mean "subscribe"?']),
    "text that is no TOML": (GOOD + "[[event\n", ["line 13"]),
}


@pytest.mark.parametrize(("text", "says"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_one_sentence_that_names_the_place_and_exit_code_2(write, text: str, says: list[str]):
    result = octopia("simulate", write(text), "--json")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("octopia: scenario.toml")
    assert "Traceback" not in result.stderr
    for each in says:
        assert each in result.stderr
    # A filter's sentence is followed by its text and a caret; all else is one line.
    assert len(result.stderr.splitlines()) == (3 if "^" in result.stderr else 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate"],
        ["simulate", "no-such-file.toml"],
        ["simulate", EXAMPLES],
        ["simulate", EXAMPLES / "fig7b.toml", "--profile", "no-such-profile"],
        ["simulate", EXAMPLES / "fig7b.toml", "--algorithm", "psychic"],
        ["sim", "explain", EXAMPLES / "fig7b.toml", "--publication", "7"],
        ["sim", "compare", EXAMPLES / "fig7b.toml", "no-such-file.toml"],
        ["no-such-command"],
    ],
    ids=lambda arguments: " ".join(Path(str(each)).name for each in arguments),
)
def test_wrong_usage_is_exit_code_2_without_a_traceback(arguments: list[object]):
    result = octopia(*arguments)
    assert result.returncode == 2
    assert result.stderr
    assert "Traceback" not in result.stderr


def test_a_failure_of_ours_is_exit_code_1_and_one_sentence():
    code = (
        "import sys; from octopia.cli import app, main; from octopia.errors import InternalError\n"
        "@app.command()\ndef fail(): raise InternalError('expected success, got none')\n"
        "sys.argv = ['octopia', 'fail']; main()"
    )
    result = python(code)
    assert result.returncode == 1
    assert result.stderr == "octopia: expected success, got none\n"


def test_what_a_broker_refuses_is_listed_and_the_run_goes_on(write):
    events = ["publish = {y = 1}", 'unsubscribe = "nothing"', 'unadvertise = "S/0"', "publish = {x = 9}"]
    path = write(GOOD + "".join(f'[[event]]\nclient = "P"\n{each}\n' for each in events))
    result = octopia("simulate", path, "--json")
    assert result.returncode == 0
    assert result.stderr == ""
    output = json.loads(result.stdout)
    why = (
        "it conforms to none of its publisher's advertisements; the closest is (x > 0), which does not declare y: "
        "leave it out, or advertise what you publish"
    )
    assert output["refused"] == [
        {"publication": 0, "client": "P", "reason": why},
        {
            "publication": None,
            "client": "P",
            "reason": "unsubscription of nothing: this client has no such subscription",
        },
        {"publication": None, "client": "P", "reason": "unadvertisement of S/0: this client has no such advertisement"},
    ]
    assert [each["publication"] for each in output["deliveries"]] == [1]
    shown = octopia("simulate", path)
    assert shown.returncode == 0
    assert f"refused: publication 0 of P: {why}" in " ".join(shown.stdout.split())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
class TestEveryExample:
    def test_it_passes_every_check_and_gives_the_same_bytes_whatever_the_process(self, file: Path, tmp_path: Path):
        outputs, traces = [], []
        for seed in ("0", "77"):
            folder = tmp_path / seed
            result = octopia("simulate", file, "--check", "--json", "--trace", folder, PYTHONHASHSEED=seed)
            assert result.returncode == 0, result.stderr
            assert result.stderr == ""
            outputs.append(result.stdout)
            traces.append((folder / "trace.jsonl").read_bytes())
        assert outputs[0] == outputs[1]
        assert traces[0] == traces[1]
        assert len(json.loads(outputs[0])["deliveries"]) > 0
        assert traces[0].count(b"\n") > 20

    def test_it_can_be_explained(self, file: Path):
        explained = octopia("sim", "explain", file)
        assert explained.returncode == 0
        assert explained.stdout.startswith("publication 0 by ")


def test_every_example_can_be_compared():
    result = octopia("sim", "compare", *FILES, "--json")
    assert result.returncode == 0
    compared = json.loads(result.stdout)
    assert len(compared) == len(FILES) >= 4
    assert all(list(each) == ["scenario", "static", "dynamic", "adaptive"] for each in compared)


def test_a_checked_run_says_so():
    result = octopia("simulate", EXAMPLES / "fig7b.toml", "--check")
    assert result.returncode == 0
    assert "checked: every invariant after every step; every delivery exactly once" in result.stdout


def test_compare_shows_the_paper_s_figures_side_by_side():
    files = [EXAMPLES / f"fig7{each}.toml" for each in "bcd"]
    results = json.loads(octopia("sim", "compare", *files, "--json").stdout)
    messages = [tuple(each[name]["messages"] for name in ("static", "dynamic", "adaptive")) for each in results]
    assert messages == [(8, 7, 5), (7, 6, 5), (7, 8, 5)]
    assert "b.3>b.1[0001]" in results[0]["dynamic"]["hops"]


def test_compare_shows_how_slow_alinks_and_dead_brokers_are_gone_around():
    files = [EXAMPLES / "slow_alink.toml", EXAMPLES / "dead_broker.toml"]
    slow, dead = json.loads(octopia("sim", "compare", *files, "--json").stdout)
    assert "b.3>b.1[0000 c:1010]" in slow["adaptive"]["hops"]
    assert slow["static"]["hops"] == slow["dynamic"]["hops"]
    assert [len(dead[name]["hops"]) for name in ("static", "dynamic", "adaptive")] == [3, 3, 4]
    shown = octopia("sim", "compare", *files, EXAMPLES / "fig7b.toml").stdout
    assert [each for each in ("1 x detour", "2 x detour", "x case I") if each not in shown] == []


def test_a_trace_folder_holds_both_forms_and_says_what_was_assumed(tmp_path: Path):
    folder = tmp_path / "new" / "folder"
    result = octopia("simulate", EXAMPLES / "fig7b.toml", "--trace", folder, "--profile", "paper", "--seed", "5")
    assert result.returncode == 0
    assert sorted(each.name for each in folder.iterdir()) == ["run.json", "trace.jsonl", "trace.parquet"]
    manifest = json.loads((folder / "run.json").read_text())
    assert manifest["seed"] == 5
    assert manifest["profile"]["name"] == "paper"
    assert manifest["routing"]["algorithm"] == "dynamic"
    assert "assumed: profile paper" in result.stdout


def test_a_trace_of_deliveries_tells_of_nothing_else(tmp_path: Path):
    folder = tmp_path / "out"
    arguments = ["--trace", folder, "--trace-level", "deliveries", "--trace-format", "jsonl"]
    assert octopia("simulate", EXAMPLES / "fig7b.toml", *arguments).returncode == 0
    rows = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    assert {row["event"] for row in rows} == {"deliver"}
    assert sorted(each.name for each in folder.iterdir()) == ["run.json", "trace.jsonl"]


def test_a_trace_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path):
    taken = tmp_path / "taken"
    taken.write_text("")
    result = octopia("simulate", EXAMPLES / "fig7b.toml", "--trace", taken)
    assert "Traceback" not in result.stderr
    assert result.returncode == 2


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("octopia", "pyspark asyncio networkx matplotlib pyarrow lark"),
        ("octopia.broker", "pyspark asyncio networkx matplotlib pyarrow lark"),
        ("octopia.scenario", "pyspark networkx matplotlib pyarrow lark"),
        ("octopia.simulator.run", "pyspark networkx matplotlib pyarrow lark"),
        ("octopia.cli", "pyspark asyncio networkx matplotlib pyarrow lark msgspec rich"),
    ],
)
def test_importing_loads_nothing_heavy(module: str, heavy: str):
    code = f"import sys, {module}; print(sorted(set({heavy.split()}) & set(sys.modules)))"
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_running_a_scenario_needs_no_spark_matplotlib_or_pyarrow():
    code = (
        "import sys; from pathlib import Path; from octopia.scenario import load_scenario\n"
        "from octopia.simulator.run import run_scenario\n"
        f"run_scenario(load_scenario(Path({str(EXAMPLES / 'fig7b.toml')!r})))\n"
        "print(sorted({'pyspark', 'asyncio', 'matplotlib', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_names_with_brackets_are_printed_as_they_are(tmp_path: Path):
    file = tmp_path / "odd.toml"
    file.write_text(
        'name = "odd [/x] :smile:"\n[overlay]\ntree = "a"\nclusters = 1\n'
        '[[client]]\nname = "[red]P"\nbroker = "a.0"\nadvertise = ["x > 0"]\nsubscribe = ["x > 0"]\n'
        '[[event]]\nclient = "[red]P"\npublish = {x = 1}\n'
    )
    for command in ("run", "compare", "explain"):
        result = octopia("sim", command, str(file))
        assert result.returncode == 0, result.stderr
        assert ("[red]P" if command != "compare" else "odd [/x] :smile:") in result.stdout
