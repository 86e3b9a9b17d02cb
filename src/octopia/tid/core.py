"""The TID broker: the baseline that OctopiA is compared with.

Theory of operation
-------------------

To a driver this broker looks like OctopiA's: inputs in, effects out, its own output queues. It has its own messages
between brokers, and it treats the overlay as a general graph with cycles. All neighbours are of one kind, and served in
order of their ids.

Trees keep publications from running in circles. An advertisement floods the overlay. The links over which it first
reached every broker form a tree, and the advertisement's id is the tree id, TID. The SRT stores the tree as a last hop
towards the publisher. A subscription climbs the tree of every advertisement that it intersects, one copy per TID. The
PRT of each broker on the way stores the copy with the last hop towards the subscriber. A publication is bound to one
TID at its host broker, and descends that tree wherever a copy bound to the TID matches.

Messages are handled one at a time, in order:

==================  =============  ============================================================================
message             from           what the broker does
==================  =============  ============================================================================
AdvertiseRequest    client         mint the TID, store, flood; bind local subscriptions that intersect
TidAdvertise        any neighbour  the same, but not back; a second copy is discarded
SubscribeRequest    client         store unbound; for each intersecting advertisement store and send a bound copy
TidSubscribe        any neighbour  store, send on to the advertisement's last hop; stop where that is withdrawn
UnsubscribeRequest  client         remove it and all its bound copies, tell each hop that got some of them
TidUnsubscribe      any neighbour  remove the copies that came from there, tell each hop that got some of them
Un…advertise        as above       remove the advertisement and everything bound to it, flood; stop where unknown
PublishRequest      client         refuse, or bind to the lowest conforming TID; deliver and route
TidPublish          any neighbour  deliver and route by content and TID
==================  =============  ============================================================================

With static routing a publication keeps its TID, and every interested client gets it once, because a tree has one path
to each broker. With dynamic routing a broker may change the TID of a copy whose next link is congested, if the same
subscription is also stored under another TID with a better last hop. That can make duplicates, which the edge broker
drops, and in bad cases loops, which the hop limit ends. Both are counted. Nothing else is lost while links are up and
advertisements stay, unless brokers keep one copy per next hop (``tid_copies = "per-hop"``), as PADRES does. A path that
no tree contains cannot be chosen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import assert_never

from octopia.broker import clients
from octopia.broker.common import BrokerSettings, Task
from octopia.broker.interface import Effects, Placed
from octopia.broker.shell import BrokerShell
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.matching import INDEX, MatcherFactory
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.protocol import ClusterIndexVector
from octopia.protocol.messages import (
    Message,
    PublishRequest,
)
from octopia.tid import advertising, invariants, publishing, subscribing
from octopia.tid.fingerprint import fingerprint
from octopia.tid.messages import (
    TidAdvertise,
    TidMessage,
    TidPublish,
    TidSubscribe,
    TidUnadvertise,
    TidUnsubscribe,
)
from octopia.tid.state import TidState
from octopia.tid.tables import Prt, Srt, Unbound

VERBS: clients.Verbs[TidState] = clients.Verbs(
    advertise=advertising.advertise_for_client,
    unadvertise=advertising.unadvertise_for_client,
    subscribe=subscribing.subscribe_for_client,
    unsubscribe=subscribing.unsubscribe_for_client,
    confirm_again=subscribing.confirm_again_for_client,
)
"""The functions with which this kind of broker serves its clients."""


class TidBroker(BrokerShell[TidState]):
    """A broker that routes by tree ids, statically (TID-S) or dynamically (TID-D)."""

    __slots__ = ()

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        settings: BrokerSettings,
        incarnation: int = 1,
        matchers: MatcherFactory = INDEX,
    ):
        super().__init__(
            TidState(
                neighbourhood,
                # Nothing orders the queues of a general cyclic overlay, so bounded queues could wait for each other.
                dataclasses.replace(settings, queue_capacity=0, queue_capacity_bytes=0),
                incarnation,
                srt=Srt(matchers.advertisements()),
                prt=Prt(matchers.subscriptions()),
                unbound=Unbound(matchers.subscriptions()),
            )
        )

    # Inputs.

    def attach(self, client: ClientId, now_ms: float) -> Effects:
        """Add a client."""
        effects = self._state.begin(now_ms)
        self._state.attach(client)
        return effects

    def link_up(self, peer: BrokerId, now_ms: float) -> Effects:
        """Do nothing: this broker exchanges no state, and its drivers give it links that never fail."""
        return self._state.begin(now_ms)

    def link_down(self, peer: BrokerId, now_ms: float, unsent: Sequence[Message] = ()) -> Effects:
        """Do nothing: this broker exchanges no state, and its drivers give it links that never fail."""
        return self._state.begin(now_ms)

    def wake(self, now_ms: float) -> Effects:
        """Handle a slice of the backlog, which is the only thing that this broker may have to do."""
        effects = self._state.begin(now_ms)
        self._finish()
        return effects

    def drain_effects(self) -> Effects | None:
        """Return None: queues are unbounded, so taking from them never makes room."""
        return None

    # Queries.

    @property
    def next_deadline_ms(self) -> float | None:
        """The time by which ``wake`` must be called, or None: at once if there is a backlog."""
        return self._state.now_ms if self._state.backlog else None

    @property
    def accepts_data(self) -> bool:
        """True: this broker is always ready for publications."""
        return True

    def table_sizes(self) -> dict[str, int]:
        """Return the number of entries of each routing table: bound copies in the PRT; this broker has no CLT."""
        return {"clt": 0, "prt": len(self._state.prt), "srt": len(self._state.srt)}

    def civs(self, client: ClientId, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return None: this broker has no CIVs."""
        return None

    def check(self) -> None:
        """Raise InvariantBroken if an invariant does not hold."""
        invariants.check(self)

    def fingerprint(self) -> str:
        """Return a digest of the whole state; equal states have equal digests, in any process."""
        return fingerprint(self._state)

    def _work(self, task: Task, peer: Peer, entries: Sequence[SubscriptionId | AdvertisementId]) -> None:
        """Handle a slice of the backlog: clients that leave are all there is."""
        if isinstance(peer, ClientId):
            clients.withdraw(self._state, VERBS, peer, entries)

    # Dispatch.

    def _receive_from_broker(self, sender: BrokerId, batch: Sequence[Message]) -> None:
        state = self._state
        if sender not in state.queues:
            raise ProtocolViolation(f"broker {self.id} has no neighbour {sender}")
        publications = 0
        for message in batch:
            if not isinstance(message, TidMessage):
                raise ProtocolViolation(f"a {type(message).__name__} cannot come from broker {sender}")
            state.trace_receive(sender, message)
            self._on_message(sender, message)
            publications += isinstance(message, TidPublish)
        if publications:
            state.effects.placed.append(Placed(sender, 0, publications))

    def _on_message(self, sender: BrokerId, message: TidMessage) -> None:
        state = self._state
        match message:
            case TidPublish():
                publishing.route(state, sender, message)
            case TidAdvertise():
                advertising.on_advertise(state, sender, message)
                self._trace_tables()
            case TidUnadvertise():
                advertising.on_unadvertise(state, sender, message)
                self._trace_tables()
            case TidSubscribe():
                subscribing.on_subscribe(state, sender, message)
                self._trace_tables()
            case TidUnsubscribe():
                subscribing.on_unsubscribe(state, sender, message)
                self._trace_tables()
            case _:
                assert_never(message)

    def _receive_from_client(self, client: ClientId, batch: Sequence[Message]) -> None:
        state = self._state
        if client not in state.clients:
            raise ProtocolViolation(f"client {client} is not attached to broker {self.id}")
        publications = 0
        for message in batch:
            if not isinstance(message, PublishRequest | clients.ControlRequest):
                raise ProtocolViolation(f"a {type(message).__name__} cannot come from client {client}")
            self._on_request(client, message)
            publications += isinstance(message, PublishRequest)
        if publications:
            state.effects.placed.append(Placed(client, 0, publications))

    def _on_request(self, client: ClientId, request: PublishRequest | clients.ControlRequest) -> None:
        if isinstance(request, PublishRequest):
            publishing.publish_for_client(self._state, client, request)
        else:
            clients.on_request(self._state, VERBS, client, request)
            self._trace_tables()

    def _trace_tables(self) -> None:
        """Record the sizes of both tables: a change of one often changes the other."""
        self._state.trace_table("srt", len(self._state.srt))
        self._state.trace_table("prt", len(self._state.prt))
