"""``octopia trace``: the path of a publication through a running overlay."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Annotated, Any

import typer

from octopia.cli.contexts import find_operated
from octopia.cli.lazy import examples
from octopia.cli.offers import advertise_for
from octopia.cli.options import AsJson, Broker, Timeout, Url
from octopia.cli.output import echo, print_json
from octopia.cli.sessions import connected
from octopia.cli.values import read_attributes
from octopia.client.operators import ask_everyone
from octopia.content import Publication
from octopia.content.literals import format_name, show_value
from octopia.errors import RequestRefused
from octopia.protocol import Command, Verb
from octopia.transport.loop import run_loop

_WATCH_S = 30.0
_POLL_S = 0.05


@examples(
    "octopia trace symbol=IBM price=101.5",
    "octopia trace symbol=IBM price=101.5 -b b.3 --wait 3",
    "octopia trace symbol=IBM price=101.5 --json",
)
def trace(
    attributes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="Attributes, as those of octopia pub.")],
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0.1, max=25.0, help="Time without a new step that ends the trace."
        ),
    ] = 0.5,
    url: Url = None,
    broker: Broker = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Publish and show the path of the publication, hop by hop.

    Each step has its delay, the queues and the reason for each choice. It is a real publication, which subscribers get;
    its payload is a random word by which brokers recognise it. While it is in flight, every broker traces its routing
    steps. Brokers answer on their own machine only. In an overlay with tokens, it needs the token of an operator who
    may also publish.
    """
    publication = Publication(read_attributes(attributes), secrets.token_hex(8).encode())
    found = run_loop(_trace(publication, wait, url, broker, timeout))
    if as_json:
        print_json(found)
        return
    values = ", ".join(f"{format_name(name)} = {show_value(value)}" for name, value in publication.attributes.items())
    echo(f"{values}, published at {found['host']}")
    for step in found["steps"]:
        first, *rest = step["story"]
        echo(f"{step['delay_ms']:+9.1f} ms  {first}")
        for line in rest:
            echo(f"{'':12}  {line}")
    for name, problem in found["problems"].items():
        echo(f"{'':12}  no answer from {name}: {problem}")


async def _trace(
    publication: Publication, wait_s: float, url: str | None, broker: str | None, timeout: float | None
) -> dict[str, Any]:
    address = await find_operated(url, broker)
    payload = publication.payload
    await _ask(address, Command(Verb.WATCH, payload=payload, seconds=_WATCH_S))
    try:
        async with connected(url, broker, timeout, f"trace-{payload.decode()[:6]}") as client:
            await advertise_for(client, publication, timeout)
            begin_ms = time.time() * 1000.0
            await client.publish(publication, timeout=timeout)
            host = client.broker
            steps, problems = await _settled(address, payload, wait_s)
    finally:
        await ask_everyone(address, Command(Verb.UNWATCH, payload=payload))
    for step in steps:
        step["delay_ms"] = step.pop("at_ms") - begin_ms
    return {"host": host, "attributes": dict(publication.attributes), "steps": steps, "problems": problems}


async def _settled(address: Any, payload: bytes, wait_s: float) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the steps of all brokers in the order of time, once none has been added for a while."""
    command = Command(Verb.WATCHED, payload=payload)
    seen, quiet_since_s = -1, time.monotonic()
    while True:
        answers = await ask_everyone(address, command)
        steps = [{"broker": name, **step} for name, report in answers.reports.items() for step in report["steps"]]
        if len(steps) != seen:
            seen, quiet_since_s = len(steps), time.monotonic()
        elif time.monotonic() - quiet_since_s >= wait_s:
            return sorted(steps, key=lambda step: step["at_ms"]), answers.problems
        await asyncio.sleep(_POLL_S)


async def _ask(address: Any, command: Command) -> None:
    answers = await ask_everyone(address, command)
    if not answers.reports:
        raise RequestRefused("; ".join(dict.fromkeys(answers.problems.values())) or "no broker answers")
