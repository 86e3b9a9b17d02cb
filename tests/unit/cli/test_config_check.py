"""``octopia config check``, and settings from the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.cli.environment import overrides
from octopia.cli.options import find_overlay
from octopia.errors import InvalidFile, InvalidOverlay, UsageError
from octopia.settings import Algorithm, LogFormat, LogLevel

TEXT = """
tree = "a-b"
clusters = 2

[routing]
algorithm = "static"
tau = 5

[limits]
clients = 7

[log]
level = "info"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "overlay.toml"
    path.write_text(TEXT)
    return path


def check(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["config", "check", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_each_setting_has_its_source(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPIA_ROUTING_TAU", "2.5")
    monkeypatch.setenv("OCTOPIA_LOG_FORMAT", "json")
    found = json.loads(check(str(file), "--json"))
    assert found["routing"]["algorithm"] == {"value": "static", "source": "file"}
    assert found["routing"]["tau"] == {"value": 2.5, "source": "OCTOPIA_ROUTING_TAU"}
    assert found["routing"]["window_ms"] == {"value": 50.0, "source": "default"}
    assert found["limits"]["clients"] == {"value": 7, "source": "file"}
    assert found["log"] == {
        "format": {"value": "json", "source": "OCTOPIA_LOG_FORMAT"},
        "level": {"value": "info", "source": "file"},
    }
    shown = check(str(file)).splitlines()
    assert shown[0] == f"{file} is valid: 4 brokers (0 inner, 4 edge), 2 aLinks, 2 iLinks, tree diameter 1"
    assert "tau = 2.5  # OCTOPIA_ROUTING_TAU" in shown
    assert 'algorithm = "static"  # file' in shown


def test_the_environment_changes_files_and_trees(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPIA_ROUTING_ALGORITHM", "dynamic")
    monkeypatch.setenv("OCTOPIA_LIMITS_CLIENTS", "9")
    monkeypatch.setenv("OCTOPIA_LOG_LEVEL", "")
    of_file, of_tree = find_overlay(str(file)), find_overlay("path:2", 1)
    assert of_file.routing.algorithm is of_tree.routing.algorithm is Algorithm.DYNAMIC
    assert of_file.limits.clients == of_tree.limits.clients == 9
    assert (of_file.log.level, of_tree.log.level, of_tree.log.format) == (
        LogLevel.INFO,
        LogLevel.WARNING,
        LogFormat.TEXT,
    )


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        (
            "OCTOPIA_LIMITS_CLIENT",
            "5",
            r"environment, \[limits\]: expected one of the keys .*\(did you mean \"clients\"\?\)",
        ),
        ("OCTOPIA_LIMITS_CLIENTS", "many", r"environment, \[limits\]: expected clients to be an integer of at least 0"),
        ("OCTOPIA_ROUTING_ALGORITHM", "statik", r"environment, \[routing\]: .*\(did you mean \"static\"\?\)"),
        ("OCTOPIA_LOG_FORMAT", "xml", r"environment, \[log\]: expected format to be one of text, json"),
    ],
)
def test_a_wrong_variable_is_an_error(
    variable: str, value: str, error: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidFile, match=error):
        check(str(file))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('tree = "a-b"\n', "expected a number of clusters"),
        ('tree = "a-b"\nclusters = 2\n[log]\nformat = "xml"', r"overlay.toml, \[log\]: expected format to be one of"),
        ('tree = "a-b"\nclusters = 2\n[logs]\n', 'got "logs"'),
        (
            'tree = "a-b"\nclusters = 2\n[[link]]\nbetween = ["a.0", "b.0"]\ndelay_ms = 5000',
            "expected a delay below 1000",
        ),
    ],
)
def test_a_wrong_file_is_an_error(text: str, error: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises((InvalidFile, InvalidOverlay), match=error):
        check(str(file))
    with pytest.raises(UsageError, match=r"ends in \.toml"):
        check("path:3")


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("2.5", 2.5), ("true", True), ("static", "static"), ('"static"', "static"), ("1 2", "1 2")],
)
def test_values_are_toml_or_text(text: str, value: Any) -> None:
    assert overrides({"OCTOPIA_LIMITS_X": text, "OCTOPIA_URL": "octopia://x", "LIMITS_X": "1"}) == {
        "limits": {"x": value}
    }
