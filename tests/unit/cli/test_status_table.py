"""The table of ``octopia status``, from made-up reports."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from octopia.cli.status import status_table


def report(losses: dict[str, dict[str, int]] | None = None) -> dict[str, Any]:
    return {
        "clients": 2,
        "tables": {"prt": 3, "clt": 4, "srt": 0},
        "links": {
            "a.1": {"up": True, "open": True, "queue": 5, "congested": True},
            "a.2": {"up": True, "open": False, "queue": 0, "congested": True},
            "b.0": {"up": False, "open": False, "queue": 6, "congested": True},
        },
        "sent": {"publication": 7},
        "cases": {"case I": 1},
        "rerouted": 8,
        "stranded": 1,
        "losses": losses or {},
    }


def shown(reports: dict[str, dict[str, Any]]) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(status_table("two", ["a.0", "a.1"], reports, {"a.1": "restarting in 3.2 s"}))
    lines = [line.replace("┃", "│") for line in capture.get().splitlines()]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if "│" in line]


def test_a_row_per_broker():
    head, running, dead = shown({"a.0": report()})
    assert head[-1] == "congested links"
    assert running == ["a.0", "2", "3", "4", "2/3", "12", "7", "8", "a.1, a.2 (closed), b.0 (down)"]
    assert (dead[0], dead[-1]) == ("a.1", "restarting in 3.2 s")


def test_losses_by_cause_have_a_column_once_there_are_any():
    losses = {
        "restart": {"publications": 0, "occasions": 1},
        "link_down": {"publications": 12, "occasions": 3},
        "unreachable_broker": {"publications": 243, "occasions": 243},
    }
    head, running, dead = shown({"a.0": report(losses)})
    lost = "link_down: 12, restart: unknown, unreachable_broker: up to 243"
    assert (head[-1], running[-1], dead[-1]) == ("lost publications", lost, "")
