"""The fan-out of a broker's entries into the mailboxes of its clients, within a limit per client.

Plain Python that Cython compiles (``fanout.pxd`` has the C types): every delivery passes here.

A client that is too slow loses its oldest deliveries, or everything and its connection, as it chose. Other clients are
not affected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from octopia.broker import Delivered, ForClients
from octopia.broker.interface import DeliveryPlan
from octopia.ids import ClientId, Peer
from octopia.node.links import ClientLink
from octopia.node.mailbox import Mailbox
from octopia.protocol import Overflow
from octopia.protocol.transit import Deliver, Publish, delivery_of


@dataclasses.dataclass(slots=True)
class Losses:
    """The deliveries that clients were too slow for; ``cut_off`` counts them for those that must go."""

    deliveries: list[tuple[ClientId, Deliver]] = dataclasses.field(default_factory=list)
    cut_off: dict[ClientId, int] = dataclasses.field(default_factory=dict)


def fan_out(
    entries: Sequence[ForClients],
    clients: dict[ClientId, ClientLink],
    limit: int,
    limit_bytes: int,
    reached: dict[Peer, None],
) -> Losses:
    """Put entries into mailboxes, note the clients reached, and return what was lost.

    A mailbox below both limits takes one more delivery, however large.
    """
    losses = Losses()
    cut_off = losses.cut_off
    routes: dict[int, list[tuple[ClientLink, Mailbox, tuple[int, ...]]]] = {}
    for entry in entries:
        if not isinstance(entry, Delivered):
            link = clients.get(entry.client)
            if link is not None:
                link.mailbox.answer(entry.reply)
                reached[entry.client] = None
            continue
        copy, size_bytes = entry.copy, entry.copy.size_bytes
        # Publications with the same recipients have the same plan, which lives as long as its entry.
        route = routes.get(id(entry.plan))
        if route is None:
            route = routes[id(entry.plan)] = _route(entry.plan, clients, reached)
        delivery = None
        for link, mailbox, handles in route:
            if delivery is not None and delivery.handles is handles:
                delivery.is_shared = True
            elif type(copy) is Publish:
                delivery = delivery_of(copy, handles)
            else:
                delivery = Deliver(copy.id, copy.publication, handles, copy.hop, copy.published_ms)
            if mailbox.has_room(limit, limit_bytes) and not (cut_off and link.peer in cut_off):
                mailbox.put(delivery, size_bytes)
            elif link.overflow is Overflow.DROP_OLDEST:
                _drop_oldest(link, limit, limit_bytes, losses)
                mailbox.put(delivery, size_bytes)
            else:
                _drop_all(link, delivery, losses)
    return losses


def _route(
    plan: DeliveryPlan, clients: dict[ClientId, ClientLink], reached: dict[Peer, None]
) -> list[tuple[ClientLink, Mailbox, tuple[int, ...]]]:
    """Return the links of a plan's recipients, which are reached now, with their mailboxes and handles."""
    route = []
    for client, handles in plan:
        link = clients.get(client)
        if link is not None:
            route.append((link, link.mailbox, handles))
            reached[client] = None
    return route


def _drop_oldest(link: ClientLink, limit: int, limit_bytes: int, losses: Losses) -> None:
    mailbox = link.mailbox
    while not mailbox.has_room(limit, limit_bytes):
        oldest = mailbox.take_delivery()
        if oldest is None:
            return
        mailbox.lost += 1
        losses.deliveries.append((link.peer, oldest))


def _drop_all(link: ClientLink, delivery: Deliver, losses: Losses) -> None:
    client, mailbox = link.peer, link.mailbox
    lost = [*mailbox.take_deliveries(), delivery]
    losses.deliveries += [(client, each) for each in lost]
    losses.cut_off[client] = losses.cut_off.get(client, 0) + len(lost)
