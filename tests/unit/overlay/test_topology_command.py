import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from octopia.cli import app
from octopia.errors import InvalidOverlay, UsageError


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["topology", "show", *map(str, arguments)], env={"COLUMNS": "80", "TERM": "dumb"})


def test_rows_are_clusters_and_columns_regions():
    result = run("path:3", "--clusters", 2)
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[:3] == [["a", "b", "c"], ["C0", "a.0", "b.0", "c.0"], ["C1", "a.1", "b.1", "c.1"]]


def test_summary_of_se():
    output = run("paper:se").output
    assert "56 brokers (16 inner, 40 edge), 52 aLinks, 84 iLinks, tree diameter 5\n" in output
    assert "\nadaptive routing, at most 59 hops\n" in output
    assert all(len(line) <= 90 for line in output.splitlines())


def test_wide_overlays_go_on_below():
    output = run("path:40", "--clusters", 1).output
    assert output.count("C0") > 1
    assert all(f"{region}.0" in output.split() for region in ("a", "z", "aa", "an"))


def test_json_of_a_file(tmp_path: Path):
    path = tmp_path / "overlay.toml"
    path.write_text('name = "pair"\ntree = "a-b"\nclusters = 2\n[brokers."b.1"]\nhost = "10.0.0.4"\n')
    shown = json.loads(run(path, "--json").output)
    assert shown["name"] == "pair"
    assert shown["counts"] == {"brokers": 4, "inner": 0, "edge": 4, "alinks": 2, "ilinks": 2}
    assert (shown["diameter"], shown["hop_bound"], shown["picture"]) == (1, 4, None)
    assert shown["routing"] == {"algorithm": "adaptive", "hop_limit": 11}
    assert shown["alinks"] == [["a.0", "b.0"], ["a.1", "b.1"]]
    assert shown["brokers"][3] == {
        "broker": "b.1",
        "kind": "edge",
        "address": "10.0.0.4:7403",
        "primary_neighbours": ["a.1"],
        "secondary_neighbours": ["b.0"],
    }


def test_picture(tmp_path: Path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "overlay.svg"
    result = run("paper:fig3", "--out", out)
    assert f"The picture is in {out}." in result.output
    assert out.read_text().startswith("<?xml")


def test_errors_are_left_to_the_caller(tmp_path: Path):
    assert isinstance(run("path:3").exception, InvalidOverlay)
    assert isinstance(run("a-b, b-c, c-a", "--clusters", 2).exception, InvalidOverlay)
    assert "expected a file at" in str(run(tmp_path / "gone.toml").exception)
    (tmp_path / "overlay.toml").write_text('tree = "a"\nclusters = 1\n')
    result = run(tmp_path / "overlay.toml", "--clusters", 3)
    assert isinstance(result.exception, UsageError)
    assert "expected --clusters only with a tree" in str(result.exception)


def test_long_trees_are_not_taken_for_files():
    tree = ", ".join(f"region{number}-region{number + 1}" for number in range(40))
    assert run(tree, "--clusters", 1).exit_code == 0


def test_help_has_examples():
    assert "octopia topology show paper:se" in run("--help").output
