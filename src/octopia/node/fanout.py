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
from octopia.protocol.messages import Copy
from octopia.protocol.transit import Deliver, Publish, delivery_of

MOST_ROUTES = 4096
"""The number of cached routes; a full cache is cleared, since frequent plans return soon."""


class Route:
    """The recipients of a delivery plan that are clients now, with their mailboxes and handles.

    Those in ``screened`` do not get all of a publication, so they share no deliveries with others.
    """

    __slots__ = ("peers", "plan", "screened", "stops")

    def __init__(self, plan: DeliveryPlan, clients: dict[ClientId, ClientLink]):
        self.plan = plan  # While it is alive, no other plan has its identity.
        self.stops: list[tuple[ClientLink, Mailbox, tuple[int, ...]]] = []
        self.screened: list[tuple[ClientLink, Mailbox, tuple[int, ...]]] = []
        self.peers: dict[Peer, None] = {}
        for client, handles in plan:
            link = clients.get(client)
            if link is not None:
                is_screened = link.permissions is not None and link.permissions.hides
                (self.screened if is_screened else self.stops).append((link, link.mailbox, handles))
                self.peers[client] = None


class Routes:
    """The routes of delivery plans, kept until a client comes or goes.

    Clones of a node share them. ``clients`` are those of the node that made them; any other must make its own.
    """

    __slots__ = ("_known", "clients")

    def __init__(self, clients: dict[ClientId, ClientLink]):
        self.clients = clients
        self._known: dict[int, Route] = {}

    def of(self, plan: DeliveryPlan) -> Route:
        """Return the route of a plan."""
        route = self._known.get(id(plan))
        if route is None:
            if len(self._known) >= MOST_ROUTES:
                self._known.clear()
            route = self._known[id(plan)] = Route(plan, self.clients)
        return route


@dataclasses.dataclass(slots=True)
class Losses:
    """The deliveries that clients were too slow for; ``cut_off`` counts them for those that must go.

    ``added_bytes`` is the size of all deliveries, lost or not.
    """

    added_bytes: int = 0
    deliveries: list[tuple[ClientId, Deliver]] = dataclasses.field(default_factory=list)
    cut_off: dict[ClientId, int] = dataclasses.field(default_factory=dict)


def fan_out(
    entries: Sequence[ForClients],
    routes: Routes,
    limit: int,
    limit_bytes: int,
    reached: dict[Peer, None],
) -> Losses:
    """Put entries into mailboxes, note the clients reached, and return what was lost.

    A mailbox below both limits takes one more delivery, however large.
    """
    losses = Losses()
    cut_off = losses.cut_off
    added_bytes = 0
    route: Route | None = None
    for entry in entries:
        if not isinstance(entry, Delivered):
            link = routes.clients.get(entry.client)
            if link is not None:
                link.mailbox.answer(entry.reply)
                reached[entry.client] = None
            continue
        copy, size_bytes = entry.copy, entry.copy.size_bytes
        # Publications with the same recipients have the same plan.
        plan = entry.plan
        if route is None or route.plan is not plan:
            route = routes.of(plan)
            reached.update(route.peers)
        added_bytes += size_bytes * len(plan)
        delivery = None
        for link, mailbox, handles in route.stops:
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
        for link, _, handles in route.screened:
            _put_screened(link, copy, handles, limit, limit_bytes, losses)
    losses.added_bytes = added_bytes
    return losses


def _put_screened(
    link: ClientLink, copy: Copy, handles: tuple[int, ...], limit: int, limit_bytes: int, losses: Losses
) -> None:
    """Put a publication without its hidden parts into a mailbox; one that is empty then is not delivered."""
    mailbox, permissions = link.mailbox, link.permissions
    assert permissions is not None
    publication = permissions.shown(copy.publication)
    if publication is None:
        return
    delivery = Deliver(copy.id, publication, handles, copy.hop, copy.published_ms)
    if mailbox.has_room(limit, limit_bytes) and link.peer not in losses.cut_off:
        mailbox.put(delivery, delivery.size_bytes)
    elif link.overflow is Overflow.DROP_OLDEST:
        _drop_oldest(link, limit, limit_bytes, losses)
        mailbox.put(delivery, delivery.size_bytes)
    else:
        _drop_all(link, delivery, losses)


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
