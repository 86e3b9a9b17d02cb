"""Completion in a shell."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from octopia.cli.options import complete_brokers, complete_profile
from octopia.errors import UsageError
from octopia.simulator.profiles import find_profile


@pytest.mark.parametrize("name", ["overlay", "file"])
def test_the_brokers_of_an_overlay_file_are_offered(tmp_path: Path, name: str) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text('tree = "a-b"\nclusters = 2\n')
    context = types.SimpleNamespace(params={name: file})
    assert complete_brokers(context) == ["a.0", "a.1", "b.0", "b.1"]  # type: ignore[arg-type]


@pytest.mark.parametrize("params", [{}, {"file": "missing.toml"}, {"overlay": "path:3", "clusters": 0}])
def test_nothing_is_offered_without_an_overlay(params: dict[str, object]) -> None:
    assert complete_brokers(types.SimpleNamespace(params=params)) == []  # type: ignore[arg-type]


def test_all_built_in_profiles_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        find_profile("unknown")
    assert ", ".join(complete_profile("")) in str(refused.value)
