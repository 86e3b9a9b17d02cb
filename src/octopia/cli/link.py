"""``octopia link``: show and change links of a running overlay."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from octopia.addresses import Address
from octopia.cli.contexts import find_operated
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Rate, Url
from octopia.cli.output import echo, print_json
from octopia.cli.overlays import ask_brokers
from octopia.cli.sessions import waiting_for
from octopia.client.operators import ask, ask_overlay
from octopia.errors import NetworkError, PeerError, UnknownBroker, UsageError
from octopia.protocol import Command, Verb
from octopia.transport.loop import run_loop

Ends = Annotated[str, typer.Argument(metavar="FROM:TO", help="A link by its two brokers, such as b.3:b.0.")]


@examples(
    "octopia link throttle b.3:b.0 --rate 50",
    "octopia link throttle b.3:b.0 --both --delay-ms 20",
    "octopia link throttle b.3:b.0 --rate 0",
)
def throttle(
    ends: Ends,
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
    source, target = _ends(ends)
    directions = [(source, target), (target, source)] if both else [(source, target)]
    shaped = run_loop(_throttle(url, directions, rate, delay_ms))
    if as_json:
        print_json(shaped)
        return
    for each in shaped:
        echo(f"{each['from']} to {each['to']}: {_describe(each)}")


@examples("octopia link cut b.3:b.0", "octopia link cut b.3:b.0 --json")
def cut(ends: Ends, url: Url = None, as_json: AsJson = False) -> None:
    """Break the connection of a link, and keep it broken.

    Publications avoid the link or wait, as after a network failure. Undo it with `octopia link heal`, or by restarting
    the broker FROM, which must run on this machine.
    """
    source, target = _ends(ends)
    (done,) = run_loop(_ask_ends(url, [(source, target)], Verb.CUT))
    _show_cut(done, as_json=as_json)


@examples("octopia link heal b.3:b.0")
def heal(ends: Ends, url: Url = None, as_json: AsJson = False) -> None:
    """Let the brokers of a link that was cut connect again.

    They reconnect within two seconds. The command is sent to both brokers, since either may have cut the link.
    """
    source, target = _ends(ends)
    (done, *_) = run_loop(_ask_ends(url, [(source, target), (target, source)], Verb.HEAL))
    _show_cut(done, as_json=as_json)


@examples("octopia link list", "octopia link list --json")
def show(url: Url = None, as_json: AsJson = False) -> None:
    """List the links of an overlay, in both directions.

    A link is up, down, closed (the neighbour takes no publications) or cut on purpose.
    """
    rows = run_loop(_list(url))
    if as_json:
        print_json(rows)
        return
    for each in rows:
        shape = f", {_describe(each)}" if each["rate"] or each["delay_ms"] else ""
        congested = ", congested" if each["congested"] and each["state"] == "up" else ""
        echo(f"{each['from']} to {each['to']} ({each['kind']}): {each['state']}{congested}{shape}")


def _ends(text: str) -> tuple[str, str]:
    source, colon, target = text.partition(":")
    if not colon:
        raise UsageError(f"expected a link as FROM:TO, such as b.3:b.0, got {text!r}")
    return source, target


async def _addresses(url: str | None) -> tuple[dict[str, Any], dict[str, Address]]:
    async with waiting_for("a broker to answer"):
        return await ask_overlay(await find_operated(url))


def _known(source: str, addresses: dict[str, Address], overlay: dict[str, Any]) -> Address:
    if source not in addresses:
        raise UnknownBroker(f"expected a broker of the overlay {overlay['name']}, got {source!r}")
    return addresses[source]


async def _throttle(
    url: str | None, directions: list[tuple[str, str]], rate: float | None, delay_ms: float | None
) -> list[dict[str, Any]]:
    overlay, addresses = await _addresses(url)
    shaped = []
    for source, target in directions:
        command = Command(Verb.THROTTLE, target, rate=rate, delay_ms=delay_ms)
        shaped += await ask(_known(source, addresses, overlay), command)
    return shaped


async def _ask_ends(url: str | None, directions: list[tuple[str, str]], verb: Verb) -> list[dict[str, Any]]:
    """Ask the first broker of each direction; those that do not answer matter only if none does."""
    overlay, addresses = await _addresses(url)
    answers: list[dict[str, Any]] = []
    failure: NetworkError | PeerError | None = None
    for source, target in directions:
        try:
            answers += await ask(_known(source, addresses, overlay), Command(verb, target))
        except (NetworkError, PeerError) as error:
            failure = failure or error
    if not answers and failure is not None:
        raise failure
    return answers


async def _list(url: str | None) -> list[dict[str, Any]]:
    return link_rows((await ask_brokers(url, Command(Verb.REPORT))).reports)


def link_rows(reports: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each direction of each link of the brokers that answered."""
    return [
        {"from": broker, "to": peer, "state": _state(link), **link}
        for broker, report in sorted(reports.items())
        for peer, link in report["links"].items()
    ]


def _state(link: dict[str, Any]) -> str:
    if link["cut"]:
        return "cut"
    if not link["up"]:
        return "down"
    return "up" if link["open"] else "closed"


def _show_cut(link: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(link)
    else:
        echo(f"{link['from']} to {link['to']}: {'cut' if link['cut'] else 'no longer cut'}")


def _describe(shape: dict[str, Any]) -> str:
    rate = f"{shape['rate']:g} publications per second" if shape["rate"] else "no limit"
    delay = f", {shape['delay_ms']:g} ms" if shape["delay_ms"] else ""
    return rate + delay
