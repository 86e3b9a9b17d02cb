"""The algorithm of ``octopia data play``: the network's default on brokers, the paper's in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopia.cli import app, play


@pytest.mark.parametrize(
    ("arguments", "algorithm"),
    [([], "dynamic"), (["--network"], "adaptive"), (["--network", "--algorithm", "static"], "static"),
     (["--algorithm", "adaptive"], "adaptive")],
)  # fmt: skip
def test_the_default_depends_on_where_it_is_played(
    arguments: list[str], algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    played = []
    monkeypatch.setattr(play, "_on_network", lambda spec, *_: played.append(spec.algorithm) or {})
    monkeypatch.setattr(play, "_simulated", lambda spec, *_: played.append(spec.algorithm) or {})
    result = CliRunner().invoke(app, ["data", "play", "w", "--out", str(tmp_path / "out"), *arguments])
    assert (result.exit_code, played) == (0, [algorithm]), result.output
