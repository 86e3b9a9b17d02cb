"""``octopia sim run --check`` says which publications it cannot vouch for, and where their copies wait."""

from pathlib import Path

from typer.testing import CliRunner

from octopia.cli import app
from support import EXAMPLES


def checked(file: Path) -> str:
    result = CliRunner().invoke(app, ["sim", "run", str(file), "--check"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    [line] = [line for line in result.output.splitlines() if line.startswith("checked:")]
    return line


def test_a_copy_that_waits_for_a_dead_broker_is_named():
    assert checked(EXAMPLES / "dead_broker.toml").endswith(
        ", except for what publication 0 may still owe: a copy of 0 waits at b.2 until b.0 is back"
    )


def test_publications_that_are_under_way_though_no_copy_waits(tmp_path: Path):
    text = (EXAMPLES / "dead_broker.toml").read_text().replace('crash = "b.0"', 'cut = ["b.1", "a.1"]')
    file = tmp_path / "cut.toml"
    file.write_text(text.replace("price = 12.5 }", "price = 12.5 }\ncount = 7"))
    assert checked(file).endswith(
        ", except for what publications 0, 1, 2, 3, 4 and 2 more may still owe: a.1-b.1 is cut"
    )


def test_nothing_is_left_out_if_nothing_failed():
    assert checked(EXAMPLES / "fig7b.toml").endswith("exactly once, to the right clients")
