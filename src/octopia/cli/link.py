"""``octopia link``: change links of a running overlay."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Rate, Url
from octopia.cli.output import print_json
from octopia.client.urls import find_addresses
from octopia.errors import UnknownBroker, UsageError
from octopia.protocol import Command, Verb
from octopia.runtime.operating import ask, ask_overlay
from octopia.transport.loop import run_loop


@examples(
    "octopia link throttle b.3:b.0 --rate 50",
    "octopia link throttle b.3:b.0 --both --delay-ms 20",
    "octopia link throttle b.3:b.0 --rate 0",
)
def throttle(
    ends: Annotated[str, typer.Argument(metavar="FROM:TO", help="A link by its two brokers, such as b.3:b.0.")],
    rate: Rate = None,
    delay_ms: Annotated[float | None, typer.Option(min=0, help="Delay of the link.")] = None,
    both: Annotated[bool, typer.Option("--both", help="Shape both directions, not only FROM to TO.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Limit the rate of a link or delay it.

    Publications that the link cannot carry wait in the broker's queue, where routing sees them. A value that is not
    given stays as it is. The broker FROM must run on this machine, with --both also TO.
    """
    if rate is None and delay_ms is None:
        raise UsageError("expected --rate or --delay-ms, got neither")
    source, colon, target = ends.partition(":")
    if not colon:
        raise UsageError(f"expected a link as FROM:TO, such as b.3:b.0, got {ends!r}")
    directions = [(source, target), (target, source)] if both else [(source, target)]
    shaped = run_loop(_throttle(url, directions, rate, delay_ms))
    if as_json:
        print_json(shaped)
        return
    for each in shaped:
        typer.echo(f"{each['from']} to {each['to']}: {_describe(each)}")


async def _throttle(
    url: str | None, directions: list[tuple[str, str]], rate: float | None, delay_ms: float | None
) -> list[dict[str, Any]]:
    overlay, addresses = await ask_overlay(find_addresses(url)[0])
    shaped = []
    for source, target in directions:
        if source not in addresses:
            raise UnknownBroker(f"expected a broker of the overlay {overlay['name']}, got {source!r}")
        shaped += await ask(addresses[source], Command(Verb.THROTTLE, target, rate=rate, delay_ms=delay_ms))
    return shaped


def _describe(shape: dict[str, Any]) -> str:
    rate = f"{shape['rate']:g} publications per second" if shape["rate"] else "no limit"
    delay = f", {shape['delay_ms']:g} ms" if shape["delay_ms"] else ""
    return rate + delay
