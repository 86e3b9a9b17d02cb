"""The commands as a whole: names, help, options, examples, completion, and what each of them imports."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from octopia.cli import app
from octopia.cli.lazy import Stub
from support import EXAMPLES

ROOT = typer.main.get_command(app)
TOP = ["up", "broker", "status", "report", "top", "ping", "link", "context", "topology", "config", "cert", "token",
       "pub", "sub", "explain", "trace", "filter", "spool", "consumers", "archive", "outbox", "history", "replay",
       "sim", "calibrate", "data", "bench", "demo", "paper", "scale"]  # fmt: skip
OLD_NAMES = ["simulate", "compare", "workload", "truth", "play", "sweep", "metrics", "audit", "pipeline"]
SAME_NAME = {
    # The path that a command writes to: a folder, or the one file that it makes.
    "--out": 3,
    # Publications, or round trips.
    "--count": 2,
    # A filter: the advertisement of a publisher, or the widest one that a token allows.
    "--advertise": 2,
    # The kind of broker that hosts a burst in a study, or where brokers listen.
    "--host": 2,
    # The folder of an archive, or the end of a time.
    "--to": 2,
    # Of the truth, or of reading rows.
    "--engine": 2,
    # Of a workload on real brokers, or of a replay.
    "--speed": 2,
    # Publications, or rows of a table.
    "--limit": 2,
}

DIFFERENT_DEFAULTS = {
    "--advertise": "a publisher advertises its attributes; a token allows nothing",
    "--algorithm": "a scenario has its own; the pipeline compares two",
    "--count": "one publication; as long as the subscriber likes; enough to measure",
    "--engine": "the truth has two; rows are read with Spark if there are many",
    "--first": "the pipeline plays a part of its workload, to be quick",
    "--host": "brokers have their hosts in the overlay file",
    "--out": "the folder of the demo and of the paper; others write no file, or must be told",
    "--limit": "a terminal shows few rows; an answer has all of them",
    "--profile": "a scenario has its own",
    "--publishers": "a workload is a market; a benchmark begins with one client",
    "--rate": "a link keeps its rate if none is given",
    "--seed": "a scenario has its own",
    "--speed": "a replay must know whether it was given",
    "--subscribers": "as for publishers",
    "--to": "an archive must be told its folder",
    "--trace-level": "scenarios are small; a workload has millions of hops",
    "--url": "a benchmark without a URL starts its own broker",
}
"""The options whose default depends on the command, and why."""


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that a line names, and its arguments."""
    found, context = ROOT, typer.Context(ROOT, info_name="octopia")
    while isinstance(found, TyperGroup):
        _, found, words = found.resolve_command(context, words)
    return found, words


def commands() -> Iterator[tuple[str, Any, Stub]]:
    """Yield every command that is shown in help: its words, the command itself, and its stub."""
    for name, command in ROOT.commands.items():
        if command.hidden:
            continue
        if isinstance(command, TyperGroup):
            for below, stub in command.commands.items():
                yield f"{name} {below}", resolve([name, below])[0], stub
        else:
            yield name, resolve([name])[0], command


COMMANDS = {words: (command, stub) for words, command, stub in commands()}
each_command = pytest.mark.parametrize("words", COMMANDS)


def examples_of(command: Any) -> list[str]:
    heading, *lines = command.epilog.split("\n\n")
    assert heading == "Examples:"
    return lines


def octopia(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", "from octopia.cli import main; main()", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200", **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_top_level_is_small_and_old_names_are_hidden():
    assert [name for name, command in ROOT.commands.items() if not command.hidden] == TOP
    assert [name for name, command in ROOT.commands.items() if command.hidden] == OLD_NAMES


@pytest.mark.parametrize("name", OLD_NAMES)
def test_old_names_are_the_same_commands(name: str):
    new = {"simulate": "sim run", "compare": "sim compare"}.get(name, f"data {name}")
    old = resolve([name])[0]
    assert [each.opts for each in old.params] == [each.opts for each in COMMANDS[new][0].params]
    assert ROOT.commands[name].help == f"The same as octopia {new}."


def test_help_groups_the_commands():
    shown = octopia("--help")
    panels = ["Run brokers", "Publish and subscribe", "Live and historic data", "Simulate", "Data and evaluation"]
    places = [shown.index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)
    assert "simulate " not in shown


def test_version():
    assert octopia("--version") == f"octopia {importlib.metadata.version('octopia')}\n"


@each_command
def test_the_line_in_the_list_is_the_first_of_the_help(words: str):
    command, stub = COMMANDS[words]
    assert command.help.split("\n\n")[0].replace("\n", " ") == stub.help


@each_command
def test_examples_name_the_command_and_can_be_parsed(words: str):
    lines = examples_of(COMMANDS[words][0])
    assert any(f"octopia {words}" in line for line in lines)
    for line in lines:
        program, *arguments = shlex.split(re.sub(r"^(OCTOPIA_\w+=\S+ )+", "", line.rpartition("| ")[2]))
        assert program == "octopia"
        command, rest = resolve(arguments)
        command.make_context(command.name, rest)
        assert all((EXAMPLES.parent / word).is_file() for word in arguments if word.startswith("examples/"))


def test_commands_of_the_documentation_can_be_parsed():
    lines = [
        line.removeprefix("$ ").removesuffix(" &")
        for page in [*EXAMPLES.parent.glob("*.md"), *EXAMPLES.parent.glob("docs/*.md")]
        for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    shown = [line for line in lines if re.match(r"octopia [a-z]", line) and "[--" not in line]
    assert len(shown) > 20
    for line in shown:
        command, rest = resolve(shlex.split(line, comments=True)[1:])
        command.make_context(command.name, rest)


def test_groups_have_examples_too():
    groups = [ROOT, *(each for each in ROOT.commands.values() if isinstance(each, TyperGroup))]
    assert len(groups) == 11
    for group in groups:
        for line in examples_of(group):
            command, rest = resolve(shlex.split(line)[1:])
            command.make_context(command.name, rest)


def test_an_option_has_one_meaning():
    meanings = defaultdict(set)
    for command, _ in COMMANDS.values():
        for each in command.params:
            if each.param_type_name == "option":
                for name in each.opts:
                    meanings[name].add(each.help)
    assert {name: len(helps) for name, helps in meanings.items() if len(helps) > 1} == SAME_NAME


def test_an_option_has_one_default_unless_there_is_a_reason():
    defaults = defaultdict(set)
    for command, _ in COMMANDS.values():
        for each in command.params:
            if each.param_type_name == "option":
                for name in each.opts:
                    defaults[name].add((str(each.default), str(each.show_default)))
    assert sorted(name for name, found in defaults.items() if len(found) > 1) == sorted(DIFFERENT_DEFAULTS)


@each_command
def test_help_texts_are_sentences_that_say_what_a_thing_is(words: str):
    command, _ = COMMANDS[words]
    for each in command.params:
        assert each.help, each.name
        assert each.help.endswith("."), each.help
        assert each.help[0].isupper(), each.help
        assert each.help.split()[0] not in ("What", "Who", "Which", "How", "Where", "When", "Whether"), each.help


@each_command
def test_what_prints_data_prints_json(words: str):
    has_json = any("--json" in each.opts for each in COMMANDS[words][0].params)
    assert has_json is (words not in ("up", "broker"))


HEAVY = ("broker", "experiments", "matching", "node", "overlay", "pipeline", "runtime", "simulator", "tid")


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], (*HEAVY, "client", "content", "protocol", "settings", "cli.options", "cli.publish")),
        (["sim", "--help"], (*HEAVY, "client", "content", "protocol", "settings", "cli.options", "cli.simulate")),
        (["pub", "--help"], (*HEAVY, "cli.broker", "cli.simulate", "cli.status")),
        (["sim", "run", "--help"], ("client", "experiments", "pipeline", "runtime", "transport", "cli.bench")),
        (["status", "--help"], ("broker", "experiments", "matching", "node", "pipeline", "simulator", "tid")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_what_it_needs(arguments: list[str], unneeded: tuple[str, ...]):
    code = (
        "import atexit, sys; from octopia.cli import main\n"
        "atexit.register(lambda: print(*(each for each in sys.modules if each.startswith('octopia'))))\n"
        f"sys.argv = ['octopia', *{arguments}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    imported = done.stdout.splitlines()[-1].split()
    assert "octopia.cli.lazy" in imported
    assert [name for name in imported if name.removeprefix("octopia.").startswith(unneeded)] == []


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("octopia s", ["status", "sub", "spool", "sim", "scale"]),
        ("octopia sim ", ["run", "compare", "explain"]),
        ("octopia sim run --algorithm ", ["static", "dynamic", "adaptive", "tid-static", "tid-dynamic"]),
        ("octopia sim run --profile u", ["unit"]),
        ("octopia sim run examples/fig7b", ["examples/fig7b.toml"]),
        ("octopia up pa", ["paper:fig3", "paper:fig7", "paper:se", "path:3"]),
        ("octopia broker paper:fig7 b.", ["b.0", "b.1", "b.2", "b.3"]),
        ("octopia broker path:2 --clusters 2 a", ["a.0", "a.1"]),
        ("octopia broker nonsense b.", []),
    ],
)
def test_completion(line: str, offered: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(EXAMPLES.parent)
    last = str(len(line.split(" ")) - 1)
    found = octopia(_OCTOPIA_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=last)
    assert found.split() == offered


def test_completion_can_be_installed():
    assert "_OCTOPIA_COMPLETE=complete_bash" in octopia("--show-completion", "bash")
