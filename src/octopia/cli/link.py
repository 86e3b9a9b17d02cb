"""``octopia link``: change links of a running overlay."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from octopia.addresses import Address
from octopia.cli.output import console, print_json
from octopia.client.urls import find_addresses
from octopia.errors import UsageError
from octopia.protocol import Command, Verb
from octopia.runtime.operating import ask

app = typer.Typer(no_args_is_help=True, help="Change links of a running overlay.")

_EXAMPLES = """Examples:

octopia link throttle b.3:b.0 --rate 50

octopia link throttle b.3:b.0 --both --delay-ms 20

octopia link throttle b.3:b.0 --rate 0
"""


@app.callback()
def link() -> None:
    """Change links of a running overlay."""


@app.command(epilog=_EXAMPLES)
def throttle(
    ends: Annotated[str, typer.Argument(metavar="FROM:TO", help="A link by its two brokers, such as b.3:b.0.")],
    rate: Annotated[
        float | None, typer.Option(min=0, help="Publications per second that it carries; 0 lifts the limit.")
    ] = None,
    delay_ms: Annotated[float | None, typer.Option(min=0, help="By how much everything on it is held back.")] = None,
    both: Annotated[bool, typer.Option("--both", help="Shape both directions, not only FROM to TO.")] = False,
    url: Annotated[
        str | None,
        typer.Option(envvar="OCTOPIA_URL", help="Any broker of the overlay, on this machine.", metavar="URL"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Slow a link down while the overlay runs: what it cannot carry waits, and routing sees that it waits."""
    if rate is None and delay_ms is None:
        raise UsageError("expected --rate or --delay-ms, got neither")
    source, colon, target = ends.partition(":")
    if not colon:
        raise UsageError(f"expected a link as FROM:TO, such as b.3:b.0, got {ends!r}")
    directions = [(source, target), (target, source)] if both else [(source, target)]
    shaped = asyncio.run(_throttle(find_addresses(url)[0], directions, rate, delay_ms))
    if as_json:
        print_json(shaped)
        return
    for each in shaped:
        console().print(f"{each['from']} to {each['to']}: {_describe(each)}")


async def _throttle(
    anybody: Address, directions: list[tuple[str, str]], rate: float | None, delay_ms: float | None
) -> list[dict[str, Any]]:
    shaped = []
    for source, target in directions:
        (place,) = await ask(anybody, Command(Verb.WHERE, source))
        address = Address(place["host"], place["port"])
        shaped += await ask(address, Command(Verb.THROTTLE, target, rate=rate, delay_ms=delay_ms))
    return shaped


def _describe(shape: dict[str, Any]) -> str:
    rate = f"{shape['rate']:g} publications a second" if shape["rate"] else "no limit"
    delay = f", {shape['delay_ms']:g} ms" if shape["delay_ms"] else ""
    return rate + delay
