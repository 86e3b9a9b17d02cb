"""The commands of a page: one JSON object each, checked completely before anything is done."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from octopia.errors import BadRequest, OctopiaError, UsageError
from octopia.http.snapshot import Source
from octopia.protocol import Command, Verb
from octopia.settings import Algorithm

_Ref = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Throttle(msgspec.Struct, tag_field="verb", tag="throttle", forbid_unknown_fields=True):
    """Limit one direction of a link to a rate in publications per second."""

    type: str
    ref: _Ref
    link: str
    rate: Annotated[float, msgspec.Meta(gt=0, le=1e6)]


class Lift(msgspec.Struct, tag_field="verb", tag="lift", forbid_unknown_fields=True):
    """Remove the limit of one direction of a link."""

    type: str
    ref: _Ref
    link: str


class Cut(msgspec.Struct, tag_field="verb", tag="cut", forbid_unknown_fields=True):
    """Cut a link, in both directions."""

    type: str
    ref: _Ref
    link: str


class Heal(msgspec.Struct, tag_field="verb", tag="heal", forbid_unknown_fields=True):
    """Heal a link that was cut."""

    type: str
    ref: _Ref
    link: str


class Route(msgspec.Struct, tag_field="verb", tag="route", forbid_unknown_fields=True):
    """Change the routing algorithm of all brokers."""

    type: str
    ref: _Ref
    algorithm: Algorithm


Do = Throttle | Lift | Cut | Heal | Route

_decoder = msgspec.json.Decoder(Do)


def parse(text: str) -> Do:
    """Parse a command; raise BadRequest if it is invalid."""
    try:
        command: Do = _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(400, f"expected a command such as {{type: do, ref, verb, link}}, got: {error}") from None
    if command.type != "do":
        raise BadRequest(400, f"expected a message of the type do, got {command.type[:20]!r}")
    return command


def ref_of(text: str) -> Any:
    """Return the reference of an invalid command, for its answer, or None."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    ref = value.get("ref") if isinstance(value, dict) else None
    return ref if isinstance(ref, int) and not isinstance(ref, bool) else None


async def carry_out(command: Do, source: Source) -> None:
    """Send a command to the brokers that it concerns; raise OctopiaError if one of them refuses."""
    match command:
        case Throttle():
            broker, peer = ends_of(command.link)
            await _send(source, broker, Command(Verb.THROTTLE, peer, rate=command.rate))
        case Lift():
            broker, peer = ends_of(command.link)
            await _send(source, broker, Command(Verb.THROTTLE, peer, rate=0.0))
        case Cut():
            await _send_to_ends(source, command.link, Verb.CUT)
        case Heal():
            await _send_to_ends(source, command.link, Verb.HEAL)
        case Route():
            await _route(source, command.algorithm)


def ends_of(link: str) -> tuple[str, str]:
    """Return the brokers of a link such as ``b.3>b.0``."""
    source, arrow, target = link.partition(">")
    if not arrow:
        raise UsageError(f"expected a link such as b.3>b.0, got {link[:50]!r}")
    return source, target


async def _send(source: Source, broker: str, command: Command) -> None:
    if broker not in source.brokers:
        raise UsageError(f"expected a broker that this port can ask, got {broker[:50]!r}")
    await source.ask(broker, command)


async def _send_to_ends(source: Source, link: str, verb: Verb) -> None:
    """Send a command to both ends, as far as this port can ask them: one is enough, two are quicker."""
    one, other = ends_of(link)
    known = [(end, peer) for end, peer in ((one, other), (other, one)) if end in source.brokers]
    if not known:
        raise UsageError(f"expected a link of a broker that this port can ask, got {link[:50]!r}")
    problems = []
    for end, peer in known:
        try:
            await source.ask(end, Command(verb, peer))
        except OctopiaError as error:
            problems.append(error)
    if len(problems) == len(known):
        raise problems[0]


async def _route(source: Source, algorithm: Algorithm) -> None:
    for broker in source.brokers:
        await source.ask(broker, Command(Verb.ROUTE, algorithm=algorithm))
