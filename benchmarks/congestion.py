"""Measure the gain of dynamic routing on congested links, and the cost of a stopped subscriber to the others.

The first part needs root. It runs twelve hosts in network namespaces, one broker each, and caps two iLinks of the
publisher's broker far below the publication rate (the setup of tests/network/test_namespaces.py). It runs the same load
under static and dynamic routing, in turns, and prints the median delays and their ratio. Every publication must arrive
exactly once at every subscriber.

The second part runs an overlay inside this process, with one publisher at a steady rate and some subscribers. It runs
with and without one more subscriber that has stopped reading, in turns. It prints the median delays of the others in
both cases, and the ratio. The same case measured twice shows the noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "live"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "network"))

from namespaces import why_not

from congestion import SUBSCRIBERS, play
from octopia.client import Received
from octopia.ids import BrokerId, ClientId
from octopia.runtime.local import Overlay

OTHERS = 8
RATE = 400.0
PAYLOAD = bytes(2000)


def measure_links(publications: int, rounds: int) -> dict[str, float]:
    """Run both algorithms in turns, and return the median of the subscribers' median delays under each."""
    delays: dict[str, list[float]] = {"static": [], "dynamic": []}
    for _ in range(rounds):
        for algorithm, found in delays.items():
            with tempfile.TemporaryDirectory() as folder:
                outcome = asyncio.run(play(Path(folder), publications, algorithm))
            if outcome.received["numbers"] != [list(range(publications))] * len(SUBSCRIBERS):
                raise SystemExit(f"WRONG: under {algorithm} routing publications are missing")
            if any(outcome.received["doubled"]):
                raise SystemExit(f"WRONG: under {algorithm} routing publications arrived twice")
            found.append(statistics.median(map(statistics.median, outcome.received["delays_ms"])))
    medians = {f"{algorithm}_ms": statistics.median(found) for algorithm, found in delays.items()}
    return medians | {"dynamic_to_static": medians["dynamic_ms"] / medians["static_ms"]}


def measure_slow_subscriber(seconds: float, rounds: int) -> dict[str, float]:
    """Return the median delays of the others without a stopped subscriber (twice) and with one, and their ratios."""
    found: dict[str, list[float]] = {"without": [], "again": [], "with": []}
    for _ in range(rounds):
        for case, delays in found.items():
            delays.append(asyncio.run(_others_delay(seconds, stops=case == "with")))
    without, again, beside = (statistics.median(found[case]) for case in ("without", "again", "with"))
    return {
        "without_ms": without,
        "with_ms": beside,
        "with_to_without": beside / without,
        "noise": again / without,
    }


async def _others_delay(seconds: float, *, stops: bool) -> float:
    delays: list[float] = []

    def note(received: Received) -> None:
        delays.append(received.received_ms - received.published_ms)

    async with Overlay.local("path:2", 1) as overlay, overlay.connect("a.0") as publisher:
        await publisher.advertise("x >= 0")
        others = [await overlay.connect("b.0") for _ in range(OTHERS)]
        for each in others:
            await each.subscribe("x >= 0", callback=note)
        stopped = await overlay.connect("b.0")
        if stops:
            await stopped.subscribe("x >= 0")
            overlay._servers[BrokerId("b", 0)].clients[ClientId(stopped.name)].connection.pause_writing()  # type: ignore[union-attr]
        published = await _publish(publisher, seconds)
        async with asyncio.timeout(30):
            while len(delays) < OTHERS * published:
                await asyncio.sleep(0.01)
        for each in (*others, stopped):
            await each.close()
    if len(delays) != OTHERS * published:
        raise SystemExit(f"WRONG: expected {OTHERS * published} deliveries, got {len(delays)}")
    return statistics.median(delays)


async def _publish(publisher: Any, seconds: float) -> int:
    loop = asyncio.get_running_loop()
    begin, count = loop.time(), int(seconds * RATE)
    for number in range(count):
        await asyncio.sleep(max(0.0, begin + number / RATE - loop.time()))
        await publisher.publish({"x": number}, PAYLOAD)
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, default=1500, help="of the first part (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="per case of the second part (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    screen, found = Console(stderr=True), {}
    if why_not():
        screen.print(f"skipping the congested links: {why_not()}")
    else:
        with screen.status("congested links"):
            found["links"] = measure_links(options.publications, options.rounds)
    with screen.status("a stopped subscriber"):
        found["slow_subscriber"] = measure_slow_subscriber(options.seconds, options.rounds)
    print(json.dumps(found) if options.json else "\n".join(_lines(found)))


def _lines(found: dict[str, dict[str, float]]) -> list[str]:
    slow = found["slow_subscriber"]
    lines = [
        f"other subscribers: median {slow['with_ms']:.2f} ms with a stopped one, {slow['without_ms']:.2f} ms without, "
        f"ratio {slow['with_to_without']:.2f} (noise: {slow['noise']:.2f})"
    ]
    if "links" in found:
        links = found["links"]
        lines.insert(
            0,
            f"two capped links: median delay {links['static_ms']:.0f} ms static, {links['dynamic_ms']:.0f} ms dynamic, "
            f"ratio {links['dynamic_to_static']:.3f}",
        )
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
