"""``octopia pub`` and ``octopia sub``: publish and subscribe from a terminal."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import re
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Count, Rate, Url
from octopia.client import Client, Received, Subscription, connect
from octopia.content import Filter, Operator, Predicate, Publication, Value, parse_filter
from octopia.content.filters import Disjunction
from octopia.content.values import INTEGER_MAX, INTEGER_MIN
from octopia.errors import InvalidPublication, UsageError
from octopia.transport.loop import run_loop

_INTEGER_LENGTH_MAX = len(str(INTEGER_MIN))
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A number on the command line, without leading zeros: 007 is more often a code than a number."""


@examples(
    "octopia pub symbol=IBM price=101.5",
    'octopia pub symbol=IBM price=101.5 --payload "as of noon" --count 100 --rate 20',
    "cat bars.jsonl | octopia pub --stdin --url octopia://127.0.0.1:7403",
)
def pub(
    attributes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help="Attributes. A value is a number such as -3, 101.5 or 1e6, or true or false. Everything else is text, "
            "also 007: a number has no leading zeros. Single quotes make any value text: code=\"'7'\".",
        ),
    ] = None,
    payload: Annotated[str, typer.Option(help="Text that travels with the attributes.")] = "",
    stdin: Annotated[bool, typer.Option("--stdin", help="Read attributes as JSON objects, one per line.")] = False,
    count: Count = 1,
    rate: Rate = 0.0,
    advertise: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Advertise this.", show_default="the attributes, of any value")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Publish from the command line.

    It advertises first, publishes, and returns when the broker has accepted everything.
    """
    if stdin == bool(attributes):
        raise UsageError("expected either NAME=VALUE... or --stdin, got " + ("both" if stdin else "neither"))
    if stdin and count != 1:
        raise UsageError("expected --count with NAME=VALUE..., got it with --stdin, which publishes every line once")
    if stdin:
        publications = [_from_json(n, line, payload) for n, line in enumerate(sys.stdin, start=1) if line.strip()]
    else:
        publications = [Publication(dict(map(_attribute, attributes or ())), payload.encode())] * (count or 1)
    took = run_loop(_publish(publications, advertise, rate or 0.0, url))
    if as_json:
        typer.echo(json.dumps({"accepted": len(publications), "seconds": took}))
    else:
        typer.echo(f"{len(publications)} accepted in {took:.3f} s")


async def _publish(publications: list[Publication], advertise: str | None, rate: float, url: str | None) -> float:
    async with connect(url) as client:
        for offer in [advertise] if advertise else _offers(publications):
            await client.advertise(offer)
        begin = time.perf_counter()
        if rate:
            await _publish_slowly(client, publications, rate)
        else:
            await client.publish_many(publications)
        return time.perf_counter() - begin


async def _publish_slowly(client: Client, publications: list[Publication], rate: float) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for number, publication in enumerate(publications):
        await asyncio.sleep(max(0.0, begin + number / rate - loop.time()))
        await client.publish(publication)


def _offers(publications: list[Publication]) -> Iterator[Disjunction]:
    """Yield an advertisement for every set of attributes that will be published."""
    for names in dict.fromkeys(tuple(sorted(each.attributes)) for each in publications):
        yield Disjunction((Filter(tuple(Predicate(name, Operator.EXISTS) for name in names)),))


def _attribute(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"expected NAME=VALUE, such as price=101.5, got {text!r}")
    return name, read_value(value)


def read_value(text: str) -> Value:
    """Return the value of a NAME=VALUE: a number, a boolean or a text."""
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    if not text.lstrip("-").isdecimal():
        if math.isinf(number):
            raise UsageError(f"expected a number in the range of a double, got {text}: put text in single quotes")
        return number
    if len(text) > _INTEGER_LENGTH_MAX or not INTEGER_MIN <= int(text) <= INTEGER_MAX:
        raise UsageError(f"expected a signed 64-bit integer, got {text[:40]}: put text in single quotes")
    return int(text)


def show_value(value: Value) -> str:
    """Return a value as ``read_value`` accepts it: with quotes around text that would be read as another value."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    is_plain = value not in ("true", "false") and not _NUMBER.fullmatch(value) and not value.startswith("'")
    return value if is_plain else f"'{value}'"


def _from_json(number: int, line: str, payload: str) -> Publication:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        got = f"{line.strip()[:60]!r} in line {number}"
        raise InvalidPublication(f"expected one JSON object per line, got {got}: {error}") from None
    try:
        return Publication(found, payload.encode())
    except InvalidPublication as error:
        raise InvalidPublication(f"line {number}: {error}") from None


@examples(
    "octopia sub \"symbol = 'IBM' AND price > 100\"",
    'octopia sub "price > 100" --count 5 --json --url octopia://127.0.0.1:7403',
)
def sub(
    interest: Annotated[str, typer.Argument(metavar="FILTER", help='Publications to receive, such as "price > 100".')],
    count: Count = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Subscribe and print publications as they arrive.

    Ctrl-C ends the subscription. With --json it prints one object per line: a publication, or
    `{"gap": {"cause": ..., "count": ...}}` where publications may have been missed; the count is null if it is unknown.
    """
    try:
        run_loop(_receive(parse_filter(interest), count, url, as_json=as_json))
    except KeyboardInterrupt:
        raise SystemExit(0) from None


async def _receive(interest: Disjunction, count: int | None, url: str | None, *, as_json: bool) -> None:
    async with connect(url) as client:
        subscription = await client.subscribe(interest, on_gap=functools.partial(_report_gap, as_json=as_json))
        typer.echo("subscribed; Ctrl-C ends", err=True)
        seen = 0
        async for received in subscription:
            typer.echo(_line(received, as_json=as_json))
            seen += 1
            if seen == count:
                return


def _report_gap(subscription: Subscription, *, as_json: bool) -> None:
    gap = subscription.last_gap
    if as_json and gap is not None:
        typer.echo(json.dumps({"gap": {"cause": gap.cause, "count": gap.count or None}}))
    why = "" if gap is None else f" ({gap.cause}{f', up to {gap.count}' if gap.count else ''})"
    typer.echo(f"some publications may have been missed here{why}", err=True)


def _line(received: Received, *, as_json: bool) -> str:
    if not as_json:
        shown = " ".join(f"{name}={show_value(value)}" for name, value in received.attributes.items())
        return f"{shown} {received.payload.decode(errors='replace')}".rstrip()
    fields: dict[str, Any] = {
        "id": str(received.id),
        "attributes": dict(received.attributes),
        "payload": received.payload.decode(errors="replace"),
        "published_ms": received.published_ms,
        "delay_ms": received.received_ms - received.published_ms,
        "hops": received.hops,
    }
    return json.dumps(fields)
