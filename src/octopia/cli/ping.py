"""``octopia ping``: round trips to a broker."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Annotated, Any

import typer

from octopia.cli.contexts import find_operated
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Broker, Url
from octopia.cli.output import count_of, echo, print_json
from octopia.client.operators import Operator
from octopia.protocol import Command, Verb
from octopia.transport.loop import run_loop


@examples("octopia ping", "octopia ping -b b.3 --count 10 --interval 0.1", "octopia ping -b b.3 --json")
def ping(
    count: Annotated[int, typer.Option("--count", min=1, help="Number of round trips.")] = 5,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Time between two round trips.")] = 0.2,
    url: Url = None,
    broker: Broker = None,
    as_json: AsJson = False,
) -> None:
    """Measure the round trip to a broker.

    The broker answers from its event loop, so the times include the publications that it handles in the meantime.
    Brokers answer on their own machine only.
    """
    name, trips_ms = run_loop(_ping(url, broker, count, interval, is_quiet=as_json))
    summary = _summary(name, trips_ms)
    if as_json:
        print_json(summary)
        return
    echo(
        f"{name}: {count_of(count, 'round trips')}, min {summary['min_ms']:.3f} ms, mean {summary['mean_ms']:.3f} ms, "
        f"max {summary['max_ms']:.3f} ms"
    )


async def _ping(
    url: str | None, broker: str | None, count: int, interval_s: float, *, is_quiet: bool
) -> tuple[str, list[float]]:
    trips_ms: list[float] = []
    async with Operator(await find_operated(url, broker)) as operator:
        for number in range(count):
            if number:
                await asyncio.sleep(interval_s)
            begin = time.perf_counter()
            (answer,) = await operator.ask(Command(Verb.PING))
            trips_ms.append((time.perf_counter() - begin) * 1000.0)
            if not is_quiet:
                echo(f"{answer['id']}: {trips_ms[-1]:.3f} ms")
    return answer["id"], trips_ms


def _summary(name: str, trips_ms: list[float]) -> dict[str, Any]:
    return {
        "broker": name,
        "count": len(trips_ms),
        "min_ms": min(trips_ms),
        "mean_ms": statistics.fmean(trips_ms),
        "max_ms": max(trips_ms),
    }
