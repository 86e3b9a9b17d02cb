"""Rows about the clients and the tables of a broker, for operators.

A broker may know 100,000 subscriptions, and an answer is one frame: the number of rows and the length of their filters
are bounded, and ``total`` has the full number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from octopia.algorithms import Inspection
from octopia.broker.inspection import KnownAdvertisement, KnownSubscription
from octopia.content import Disjunction, Publication, conforms, explain_mismatch, matches
from octopia.content.nonconformance import explain_nonconformance
from octopia.protocol import Command

if TYPE_CHECKING:
    from octopia.runtime.server import BrokerServer

_Known: TypeAlias = KnownSubscription | KnownAdvertisement
_Row = TypeVar("_Row")

TEXT_LENGTH_MAX = 1_000
"""The length at which the text of a filter is cut."""
ROWS = 1_000
"""The number of vectors in an answer."""


def list_clients(server: BrokerServer, command: Command) -> dict[str, Any]:
    """Return the clients of a broker, or those with one name."""
    inspection = Inspection(server.broker)
    links = [each for each in server.node.clients.values() if command.client in ("", each.peer.name)]
    rows = []
    for link in links[: command.rows]:
        advertisements, subscriptions = inspection.issued_by(link.peer)
        rows.append(
            {
                "client": link.peer.name,
                "connected": link.is_connected,
                "advertisements": advertisements,
                "subscriptions": subscriptions,
                "queued": len(link.mailbox.deliveries),
                "held_bytes": link.held_bytes,
                "overflow": str(link.overflow),
            }
        )
    return {"clients": rows, "total": len(links)}


def list_civs(server: BrokerServer) -> dict[str, Any]:
    """Return the stored vector and the target clusters of the advertisements of a broker's clients."""
    broker = server.broker
    handles = [(client, handle) for client, (own, _) in broker.issued().items() for handle in own]
    civs = []
    for client, handle in handles[:ROWS]:
        found = broker.civs(client, handle)
        if found is not None:
            stored, targets = found
            civs.append({"client": client.name, "handle": handle, "civ": str(stored), "targets": str(targets)})
    return {"id": str(server.id), "civs": civs, "unlisted": max(0, len(handles) - ROWS)}


def list_tables(server: BrokerServer, command: Command) -> dict[str, Any]:
    """Return the subscriptions and the advertisements that a broker knows, or only those of its clients or of one.

    With attributes, each row says whether it matches a publication with these attributes, and if not, why. Rows that
    match come first, so that a list that is cut has them, and ``matching`` has their full number.
    """
    inspection = Inspection(server.broker)
    publication = Publication(command.attributes) if command.attributes else None
    wanted = [each for each in inspection.subscriptions() if _is_selected(each, command)]
    offered = [each for each in inspection.advertisements() if _is_selected(each, command)]
    tables: dict[str, Any] = {"total": {"subscriptions": len(wanted), "advertisements": len(offered)}}
    if publication is not None:
        allowing, others = _split(offered, lambda each: conforms(each.offer, publication))
        matching, rest = _split(wanted, lambda each: matches(each.interest, publication))
        wanted, offered = matching + rest, allowing + others
        tables["matching"] = {"subscriptions": len(matching), "advertisements": len(allowing)}
    return {
        "subscriptions": [_subscription(each, publication) for each in wanted[: command.rows]],
        "advertisements": [_advertisement(each, publication) for each in offered[: command.rows]],
        **tables,
    }


def _is_selected(row: _Known, command: Command) -> bool:
    if row.client is None:
        return not (command.client or command.hosted)
    return command.client in ("", row.client.name)


def _split(rows: Iterable[_Row], is_first: Callable[[_Row], bool]) -> tuple[list[_Row], list[_Row]]:
    """Return the rows that pass a test, and the others, both in their order."""
    first: list[_Row] = []
    others: list[_Row] = []
    for row in rows:
        (first if is_first(row) else others).append(row)
    return first, others


def _subscription(row: KnownSubscription, publication: Publication | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": str(row.id),
        "filter": _text(row.interest),
        "client": row.client.name if row.client is not None else None,
        "last_hop": str(row.last_hop),
    }
    if publication is not None:
        shown["matches"] = matches(row.interest, publication)
        shown["why"] = [] if shown["matches"] else _reasons(map(str, explain_mismatch(row.interest, publication)))
    return shown


def _advertisement(row: KnownAdvertisement, publication: Publication | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": str(row.id),
        "filter": _text(row.offer),
        "client": row.client.name if row.client is not None else None,
        "last_hop": str(row.last_hop),
        "civ": None if row.civ is None else list(row.civ),
        "pending": list(row.pending),
    }
    if publication is not None:
        shown["matches"] = conforms(row.offer, publication)
        shown["why"] = [] if shown["matches"] else [explain_nonconformance([row.offer], publication)]
    return shown


def _reasons(sentences: Iterable[str]) -> list[str]:
    return [each[:TEXT_LENGTH_MAX] for each in sentences]


def _text(content: Disjunction) -> str:
    text = str(content)
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 1]}…"
