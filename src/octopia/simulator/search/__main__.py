"""``python -m octopia.simulator.search``: search a scenario, or replay one path through it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from octopia.errors import UsageError
from octopia.simulator.search.explorer import Explorer, Order
from octopia.simulator.search.scenarios import SCENARIOS, find_scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if a violation was found, 2 for a usage error."""
    options = _parser().parse_args(arguments)
    try:
        explorer = Explorer(find_scenario(options.scenario))
        if options.replay:
            return _replay(explorer, [int(move) for move in options.replay.split(",")])
        report = explorer.search(options.limit, Order(options.order), _print_progress)
    except (UsageError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{report}\n")
    return 1 if report.violation else 0


def _parser() -> argparse.ArgumentParser:
    scenarios = "\n".join(f"  {each.name:12} {each.about}" for each in SCENARIOS.values())
    parser = argparse.ArgumentParser(
        prog="python -m octopia.simulator.search",
        description="Visit every reachable state of a small overlay, and print the path to the first violation.",
        epilog=f"scenarios:\n{scenarios}\n\nexample:\n  python -m octopia.simulator.search crash --limit 20000",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenario", help="the scenario to search")
    parser.add_argument("--limit", type=int, default=0, help="stop after this number of states (default: 0, no limit)")
    parser.add_argument("--order", choices=[*Order], default=Order.BREADTH, help="breadth finds the shortest path")
    parser.add_argument("--replay", metavar="3,1,0", help="replay this path, step by step")
    return parser


def _print_progress(line: str) -> None:
    sys.stderr.write(f"  {line}\n")


def _replay(explorer: Explorer, path: Sequence[int]) -> int:
    for line, complaint in explorer.replay(path):
        sys.stdout.write(f"{line}\n")
        if complaint:
            sys.stdout.write(f"{complaint}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
