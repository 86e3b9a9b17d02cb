"""``octopia sub``: subscribe from a terminal."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import signal
import string
import sys
from typing import Annotated, Any

import typer

from octopia.cli.contexts import find_for_client
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Broker, ClientName, Count, Timeout, Url
from octopia.cli.output import echo, one_line, printable
from octopia.cli.sessions import connected, end_like_ctrl_c, waiting_for
from octopia.cli.values import show_value
from octopia.client import Client, Received, Subscription
from octopia.client.operators import ask_advertisements
from octopia.content import Disjunction, parse_filter
from octopia.content.doubts import doubts_about
from octopia.errors import OctopiaError, UsageError
from octopia.transport.loop import run_loop

_FIELDS = ("@id", "@payload", "@hops", "@delay_ms", "@published_ms")


@examples(
    "octopia sub \"symbol = 'IBM' AND price > 100\"",
    'octopia sub "price > 100" -b tok.1 --format "{symbol} {price:.2f} {@hops}"',
    "octopia sub \"kind = 'photo'\" --count 1 --raw",
    'octopia sub "price > 100" --count 5 --json --url octopia://127.0.0.1:7403',
)
def sub(
    interest: Annotated[str, typer.Argument(metavar="FILTER", help='Publications to receive, such as "price > 100".')],
    count: Count = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="TEXT",
            help="Print each publication as this text. {price} is an attribute, {price:.2f} has a format; {@id}, "
            "{@payload}, {@hops}, {@delay_ms} and {@published_ms} are those of the delivery.",
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write only the payloads, as the bytes that came.")] = False,
    url: Url = None,
    broker: Broker = None,
    name: ClientName = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Subscribe and print publications as they arrive.

    Ctrl-C or SIGTERM ends the subscription. With --json it prints one object per line: a publication, or
    `{"gap": {"cause": ..., "count": ...}}` where publications may have been missed; the count is null if it is unknown.
    A payload that is not UTF-8 is null there, and `payload_base64` has its bytes.
    """
    printer = _Printer(as_json=as_json, raw=raw, form=form)
    wanted = parse_filter(interest)
    end_like_ctrl_c(signal.SIGTERM)
    try:
        run_loop(_receive(wanted, count, _At(url, broker, name, timeout), printer))
    except KeyboardInterrupt:
        raise SystemExit(0) from None


@dataclasses.dataclass(frozen=True, slots=True)
class _Printer:
    """The form in which publications are printed."""

    as_json: bool = False
    raw: bool = False
    form: str | None = None

    def __post_init__(self) -> None:
        given = [name for name, is_given in (("--json", self.as_json), ("--raw", self.raw)) if is_given]
        given += ["--format"] if self.form is not None else []
        if len(given) > 1:
            raise UsageError(f"expected one of --json, --raw and --format, got {' and '.join(given)}")
        if self.form is not None:
            _fields_of(self.form)

    def show(self, received: Received) -> None:
        """Print a publication."""
        if self.raw:
            sys.stdout.buffer.write(received.payload)
            sys.stdout.buffer.flush()
        elif self.form is not None:
            try:
                typer.echo(fill_form(self.form, received))
            except UsageError as error:
                echo(f"warning: {received.id} is not shown: {error}", err=True)
        elif self.as_json:
            typer.echo(to_json(received))
        else:
            typer.echo(to_text(received))


@dataclasses.dataclass(frozen=True, slots=True)
class _At:
    """The options of a call about the broker to subscribe at, and the client's name."""

    url: str | None
    broker: str | None
    name: str | None
    timeout: float | None


async def _receive(interest: Disjunction, count: int | None, at: _At, printer: _Printer) -> None:
    async with connected(at.url, at.broker, at.timeout, at.name) as client:
        on_gap = functools.partial(report_gap, as_json=printer.as_json)
        async with waiting_for(f"{client.broker} to confirm the subscription"):
            subscription = await client.subscribe(interest, on_gap=on_gap, timeout=at.timeout)
        echo("subscribed; press Ctrl-C to stop", err=True)
        await _warn(client, interest, at)
        seen = 0
        async for received in subscription:
            printer.show(received)
            seen += 1
            if seen == count:
                return


async def _warn(client: Client, interest: Disjunction, at: _At) -> None:
    """Print warnings about a filter, by itself and compared with the advertisements of the overlay."""
    advertisements: list[Disjunction] = []
    try:
        entry = await find_for_client(at.url, at.broker)
        if entry is not None:
            advertisements = await ask_advertisements(entry, client.broker)
    except OctopiaError:
        pass  # There may still be warnings about the filter by itself.
    for doubt in doubts_about(interest, advertisements):
        echo(f"warning: {doubt}", err=True)


def report_gap(subscription: Subscription, *, as_json: bool) -> None:
    """Say that publications may have been missed: on stderr, and with ``as_json`` as a line among them."""
    gap = subscription.last_gap
    if as_json and gap is not None:
        typer.echo(json.dumps({"gap": {"cause": gap.cause, "count": gap.count or None}}))
    why = "" if gap is None else f" ({gap.cause}{f', up to {gap.count}' if gap.count else ''})"
    echo(f"some publications may have been missed here{why}", err=True)


def to_text(received: Received) -> str:
    """Return a publication as NAME=VALUE, then its payload, on one line."""
    shown = " ".join(f"{name}={show_value(value)}" for name, value in received.attributes.items())
    return one_line(f"{shown} {received.payload.decode(errors='replace')}".rstrip())


def to_json(received: Received) -> str:
    """Return a publication as one line of JSON."""
    fields: dict[str, Any] = {
        "id": str(received.id),
        "attributes": dict(received.attributes),
        **_payload_to_json(received.payload),
        "published_ms": received.published_ms,
        "delay_ms": received.received_ms - received.published_ms,
        "hops": received.hops,
    }
    return json.dumps(fields)


def _payload_to_json(payload: bytes) -> dict[str, Any]:
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload": None, "payload_base64": base64.b64encode(payload).decode()}


def fill_form(form: str, received: Received) -> str:
    """Return a format string with its fields filled in; a missing attribute is empty.

    Control characters of a publication are shown as escapes. Those of the format string are the user's own.
    """
    filled = []
    for literal, name, spec in _fields_of(form):
        filled.append(literal)
        if name is not None:
            value = _field(name, received)
            try:
                filled.append("" if value is None else printable(format(value, spec)))
            except (ValueError, TypeError) as error:
                raise UsageError(f"expected a value that fits {{{name}:{spec}}}, got {value!r}: {error}") from None
    return "".join(filled)


def _fields_of(form: str) -> list[tuple[str, str | None, str]]:
    """Return the parts of a form: literal text, the name of a field, its format; names may have dots."""
    try:
        parts = [(literal, name, spec or "") for literal, name, spec, _ in string.Formatter().parse(form)]
    except ValueError as error:
        raise UsageError(f"expected text with fields such as {{price}}, got {form!r}: {error}") from None
    for _, name, _ in parts:
        if name == "" or (name is not None and name.startswith("@") and name not in _FIELDS):
            raise UsageError(f"expected the name of an attribute or one of {', '.join(_FIELDS)}, got {{{name}}}")
    return parts


def _field(name: str, received: Received) -> Any:
    match name:
        case "@id":
            return str(received.id)
        case "@payload":
            return received.payload.decode(errors="replace")
        case "@hops":
            return received.hops
        case "@delay_ms":
            return received.received_ms - received.published_ms
        case "@published_ms":
            return received.published_ms
    return received.attributes.get(name)
