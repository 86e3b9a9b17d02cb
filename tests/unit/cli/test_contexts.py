"""Contexts: the file, the current one, and brokers by name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.cli.contexts import (
    Context,
    Contexts,
    all_urls_of,
    contexts_file,
    find_urls,
    load_contexts,
    save_contexts,
    urls_of,
)
from octopia.errors import InvalidFile, UnknownBroker, UsageError

OVERLAY = 'tree = "a-b"\nclusters = 2\n[brokers."b.1"]\nhost = "10.0.0.4"\nport = 9000\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OCTOPIA_CONTEXT", raising=False)
    monkeypatch.delenv("OCTOPIA_URL", raising=False)
    return tmp_path


def octopia(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_what_is_saved_is_loaded() -> None:
    contexts = Contexts(
        "b", {"a": Context(("octopia://x",)), 'b"x': Context(("octopia://y", "octopia://z:1"), {"b.0": "octopia://y"})}
    )
    save_contexts(contexts)
    assert load_contexts() == contexts


def test_without_a_file_there_are_none_and_the_default_is_this_machine() -> None:
    assert load_contexts() == Contexts()
    assert urls_of(None) == ["octopia://127.0.0.1:7400"]


def test_commands_add_use_and_remove(folder: Path) -> None:
    (folder / "overlay.toml").write_text(OVERLAY)
    octopia("context", "add", "near", "--broker-url", "octopia://127.0.0.1:7400")
    shown = octopia("context", "add", "far", str(folder / "overlay.toml"))
    assert shown == "* near: octopia://127.0.0.1:7400\n  far: octopia://127.0.0.1:7400, 4 brokers\n"
    octopia("context", "use", "far")
    listed = json.loads(octopia("context", "list", "--json"))
    assert (listed["current"], listed["file"]) == ("far", str(contexts_file()))
    assert listed["contexts"]["far"]["brokers"]["b.1"] == "octopia://10.0.0.4:9000"
    assert octopia("context", "remove", "far") == "  near: octopia://127.0.0.1:7400\n"
    assert load_contexts().current == ""


def test_a_broker_of_a_context_is_found_by_its_name() -> None:
    brokers = {"b.1": "octopia://10.0.0.4:9000", "b.2": "octopia://[::1]/b.2"}
    save_contexts(Contexts("far", {"far": Context(("octopia://x",), brokers)}))
    assert asyncio.run(find_urls(None, "b.1")) == ["octopia://10.0.0.4:9000/b.1"]
    assert asyncio.run(find_urls(None, "b.2")) == ["octopia://[::1]:7400/b.2"]
    assert asyncio.run(find_urls(None, None)) == ["octopia://x"]
    with pytest.raises(UnknownBroker, match=r"expected a broker of the context \(b.1, b.2\), got 'b.9'"):
        asyncio.run(find_urls(None, "b.9"))


def test_any_broker_of_a_context_will_do_where_no_session_continues() -> None:
    brokers = {"a.0": "octopia://x", "b.0": "octopia://y"}
    save_contexts(Contexts("far", {"far": Context(("octopia://x",), brokers)}))
    assert all_urls_of(None) == ["octopia://x", "octopia://y"]
    assert urls_of(None) == ["octopia://x"]
    assert all_urls_of("octopia://z") == ["octopia://z"]


def test_a_url_and_the_environment_go_before_the_current_context(monkeypatch: pytest.MonkeyPatch) -> None:
    save_contexts(Contexts("one", {"one": Context(("octopia://one",)), "two": Context(("octopia://two",))}))
    assert urls_of("octopia://a,octopia://b") == ["octopia://a", "octopia://b"]
    monkeypatch.setenv("OCTOPIA_CONTEXT", "two")
    assert urls_of(None) == ["octopia://two"]
    monkeypatch.setenv("OCTOPIA_CONTEXT", "tow")
    with pytest.raises(UsageError, match=r"expected a context \(one, two\), got 'tow' \(did you mean \"two\"\?\)"):
        urls_of(None)


@pytest.mark.parametrize(
    "text",
    [
        "current = 1",
        "[contexts.a]",
        '[contexts.a]\nurls = ["http://x"]',
        '[contexts.a]\nurls = ["octopia://x"]\nurl = 1',
    ],
)
def test_a_bad_file_is_refused(text: str) -> None:
    contexts_file().parent.mkdir()
    contexts_file().write_text(text)
    with pytest.raises((InvalidFile, UsageError), match="expected"):
        load_contexts()


def test_mistakes_are_explained() -> None:
    for arguments in (["add", "x"], ["add", "x", "f.toml", "--broker-url", "octopia://x"]):
        with pytest.raises(UsageError, match="expected either an overlay file or --broker-url"):
            octopia("context", *arguments)
    with pytest.raises(UsageError, match="none yet; add one with `octopia context add`"):
        octopia("context", "use", "x")
