"""The OctopiA broker.

Theory of operation
-------------------

A broker is a state machine. A driver feeds it inputs, each with the time: messages that arrived over a link
(``receive``), a client that attached or left (``attach``, ``detach``), a link that came up or went down (``link_up``,
``link_down``), a neighbour that takes publications or does not (``link_accepts``), a link that can carry more
(``take``), a deadline that passed (``wake``). The broker answers with effects. It has no clock, no sockets and no
randomness: the same inputs in the same order give the same effects, in the simulator and on the network.

It knows its neighbourhood and nothing more of the overlay: primary neighbours over aLinks, secondary neighbours over
iLinks. It keeps two tables. The CLT holds the advertisements of its *region*, the PRT the subscriptions of its
*cluster*. The two need not meet at one broker to make a path, so publications can change links without a change to any
table. They are joined by bits: at the host broker of a publisher, each advertisement has a cluster index vector that
names the clusters with an intersecting subscription.

Messages are handled one at a time, in order:

==================  ==================  ===========================================================================
message             from                what the broker does
==================  ==================  ===========================================================================
AdvertiseRequest    client              store with its own bit set, tell all secondary neighbours
Advertise           secondary           store; if the PRT has an intersecting subscription, answer CivSet
SubscribeRequest    client              store, tell all primary neighbours; CivSet for bits that were 0
Subscribe           primary             the same, but not back to the sender
CivSet, CivUnset    secondary           set or clear the sender's bit in advertisements hosted here
Un…                 as above            the reverse
Confirm             primary             note that a subscription is in force there and beyond; confirm it onward (D5)
CivNone, CivAck     secondary           clear the sender's bit, as its answer 0; note the version of our bit it holds
…Digest             any neighbour       after link up: fetch missing entries, remove those that are gone
CivState, Fetch     any neighbour       store the sender's bits, its answer to a digest; send the entries it lacks
GapNotice           any neighbour       tell all whom the lost publications could have reached (``losses``)
PublishRequest      client              refuse, or deliver and route by the OR of its advertisements' CIVs
Publish             any neighbour       deliver and route by the PRT and by the publication's own CIV
==================  ==================  ===========================================================================

No input takes long. A client with many subscriptions that leaves, a digest of a large table, the answer to a large
Fetch, bits to be cleared after recovery, and an acknowledgement that many subscriptions wait for are handled in slices
of ``slice_max`` entries. So are copies in the waiting room that are to be routed again. The rest is the ``backlog`` of
the state, or stays in the room. Every later input handles one more slice, and until there is no rest the broker asks
for ``wake`` at once.

Outgoing messages wait in output queues that belong to the broker. So their lengths, and the congestion that they show,
mean the same under every driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from octopia.broker import (
    adapting,
    advertising,
    answers,
    clients,
    confirming,
    exchanging,
    invariants,
    limits,
    losses,
    placing,
    subscribing,
)
from octopia.broker.express import gather
from octopia.broker.fingerprint import fingerprint
from octopia.broker.interface import Detail, Effects
from octopia.broker.queues import OutputQueue
from octopia.broker.shell import BrokerShell
from octopia.broker.state import BrokerSettings, State, Task
from octopia.broker.tables import Clt, CltEntry, Prt
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, Peer, SubscriptionId
from octopia.matching import INDEX, MatcherFactory
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.protocol import ALL_CLASSES, Cause, ClusterIndexVector
from octopia.protocol.duties import Lane
from octopia.protocol.messages import (
    Advertise,
    AdvertisementDigest,
    AdvertiseRequest,
    BrokerMessage,
    CivAck,
    CivNone,
    CivSet,
    CivState,
    CivUnset,
    Confirm,
    Fetch,
    GapNotice,
    LinkStatuses,
    Message,
    NeighbourMessage,
    Publish,
    PublishRequest,
    Subscribe,
    SubscriptionDigest,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
)

_T = TypeVar("_T", Publish, PublishRequest)

_HOPS = Detail.HOPS

VERBS: clients.Verbs[State] = clients.Verbs(
    advertise=advertising.advertise_for_client,
    unadvertise=advertising.unadvertise_for_client,
    subscribe=subscribing.subscribe_for_client,
    unsubscribe=subscribing.unsubscribe_for_client,
    confirm_again=subscribing.confirm_again_for_client,
)
"""The functions with which this kind of broker serves its clients."""


class OctopiaBroker(BrokerShell[State]):
    """A broker of the paper's system, for static and for dynamic routing."""

    __slots__ = ("_unblocked",)

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        settings: BrokerSettings,
        incarnation: int = 1,
        matchers: MatcherFactory = INDEX,
        *,
        restarted_at_ms: float | None = None,
    ):
        """Create a broker; a restarted one has no state and recovers it from its neighbours."""
        clt, prt = Clt(matchers.advertisements()), Prt(matchers.subscriptions())
        super().__init__(State(neighbourhood, settings, incarnation, clt=clt, prt=prt))
        self._unblocked: Effects | None = None
        if restarted_at_ms is not None:
            self._state.now_ms = restarted_at_ms
            for neighbour in neighbourhood.neighbours:
                self._state.down[neighbour] = None
                self._state.queues[neighbour].go_down(restarted_at_ms)
            exchanging.begin_recovery(self._state)

    # Inputs.

    def attach(self, client: ClientId, now_ms: float) -> Effects:
        """Add a client."""
        effects = self._state.begin(now_ms)
        self._state.attach(client)
        exchanging.tell_of_gap(self._state, client)
        return effects

    def detach(self, client: ClientId, now_ms: float) -> Effects:
        """Remove a client and withdraw what it issued, advertisements once all its publications are routed."""
        state = self._state
        if (client, 0) in state.inputs and client in state.clients:
            advertisements = state.clients[client].advertisements
            state.leaving[client] = list(advertisements.values())
            advertisements.clear()
        return super().detach(client, now_ms)

    def take(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> NeighbourMessage | None:
        """Remove and return the next message for a neighbour: control first, then the oldest data of the mask."""
        state = self._state
        message = state.take(peer, now_ms, classes)
        if (state.blocked or state.room.entries) and isinstance(message, Publish):
            self._use_room(peer, message.traffic_class)
        return message

    def outlet(self, peer: BrokerId, now_ms: float) -> OutputQueue | None:
        """Return the queue to a neighbour if publications may be taken from it directly, else None."""
        state = self._state
        state.now_ms = now_ms
        is_traced = state.settings.detail >= _HOPS
        return None if is_traced or state.blocked or state.room.entries else state.queues[peer]

    def take_all(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> list[NeighbourMessage]:
        """Remove and return everything that ``take`` would return now."""
        if not self._state.blocked and not self._state.room.entries:
            return self._state.take_all(peer, now_ms, classes)
        # Each message that is taken may make room for another.
        batch: list[NeighbourMessage] = []
        while (message := self.take(peer, now_ms, classes)) is not None:
            batch.append(message)
        return batch

    def unplaced(self, peer: Peer) -> dict[int, int]:
        """Return the number of accepted publications from a link that still wait to be placed, per class."""
        return {
            traffic_class: len(known) for (source, traffic_class), known in self._state.inputs.items() if source == peer
        }

    @property
    def unplaced_in_all(self) -> int:
        """The number of accepted publications that still wait to be placed, also from clients that have left."""
        return sum(map(len, self._state.inputs.values()))

    def link_up(self, peer: BrokerId, now_ms: float) -> Effects:
        """Mark a link as up, and start the exchange of state over it."""
        state = self._state
        state.begin(now_ms)
        state.queues[peer].come_up()
        state.down.pop(peer, None)
        self._guard(peer, exchanging.greet, state, peer)
        self._guard(peer, losses.link_came_up, state, peer)
        if state.is_adaptive:
            self._guard(peer, self._adapt_to_link_up, peer)
        state.effects.ready[peer] = None
        self._finish()
        return state.effects

    def link_down(self, peer: BrokerId, now_ms: float, unsent: Sequence[Message] = ()) -> Effects:
        """Mark a link as down: control is dropped, data waits within limits (D10) or goes another way."""
        state = self._state
        state.begin(now_ms)
        if peer not in state.down:
            state.down[peer] = None
            dropped = state.queues[peer].go_down(now_ms)
            self._guard(peer, losses.dropped_for, state, peer, Cause.LINK_DOWN, dropped)
            for lose in (confirming.link_lost, exchanging.link_lost, placing.link_went_down):
                self._guard(peer, lose, state, peer)
            if state.is_adaptive:
                self._guard(peer, self._adapt_to_link_down, peer, unsent)
            self._finish()
        return state.effects

    def link_accepts(self, peer: BrokerId, accepts: bool, now_ms: float) -> Effects:
        """Open or close a link: under adaptive routing, publications avoid a neighbour that takes none."""
        state = self._state
        state.begin(now_ms)
        queue = state.queues[peer]
        if state.is_adaptive and queue.is_closed is accepts:
            queue.is_closed = not accepts
            if peer not in state.down:
                self._guard(peer, self._adapt_to_opening if accepts else self._adapt_to_closing, peer)
                self._finish()
        return state.effects

    def _adapt_to_opening(self, peer: BrokerId) -> None:
        self._state.links_changed = True
        adapting.retry_all(self._state)

    def _adapt_to_closing(self, peer: BrokerId) -> None:
        self._adapt_to_link_down(peer)
        placing.link_went_down(self._state, peer)

    def _adapt_to_link_up(self, peer: BrokerId) -> None:
        if self._state.kind_of(peer) is LinkKind.ILINK:
            adapting.greet(self._state, peer)
        if self._state.carries_data(peer):
            self._adapt_to_opening(peer)

    def _adapt_to_link_down(self, peer: BrokerId, unsent: Sequence[Message] = ()) -> None:
        """Let everything that has not left over a link go another way."""
        state = self._state
        state.links_changed = True
        for message in unsent:
            if isinstance(message, Publish):
                adapting.take_back_unsent(state, peer, message)
        for copy, duties in state.queues[peer].take_out():
            adapting.take_back(state, peer, cast("Publish", copy), duties)
        for lane in Lane:
            adapting.retry_refused(state, (peer, lane))

    def link_forgotten(self, peer: BrokerId, dropped: Sequence[Message], restarted: bool, now_ms: float) -> Effects:
        """Handle a link whose other end does not remember this one."""
        state = self._state
        state.begin(now_ms)
        losses.dropped_for(state, peer, Cause.UNACKNOWLEDGED, dropped)
        if restarted:
            losses.neighbour_restarted(state, peer)
            advertising.drop_answers(state, peer)
        return state.effects

    def batch_failed(self, peer: Peer, batch: Sequence[Message], now_ms: float) -> Effects:
        """Handle the loss of a batch that ``receive`` could not handle to its end."""
        self._state.begin(now_ms)
        losses.dropped_from(self._state, peer, Cause.FAILED_BATCH, batch)
        return self._state.effects

    def give_up(self, count: int, now_ms: float) -> Effects:
        """Handle the end of a broker that must leave publications behind."""
        self._state.begin(now_ms)
        losses.left_behind(self._state, count)
        return self._state.effects

    def wake(self, now_ms: float) -> Effects:
        """Handle all due deadlines: the backlog, request timeouts, limits of links that are down, the grace period."""
        state = self._state
        state.begin(now_ms)
        self._guard(self.id, confirming.expire, state)
        self._guard(self.id, exchanging.pass_grace, state)
        self._guard(self.id, losses.pass_limit, state)
        self._finish()
        return state.effects

    def drain_effects(self) -> Effects | None:
        """Return the effects of taking from full queues since the last call, or None."""
        unblocked, self._unblocked = self._unblocked, None
        return unblocked

    # Queries.

    @property
    def next_deadline_ms(self) -> float | None:
        """The time by which ``wake`` must be called, or None."""
        state = self._state
        if state.backlog or (state.room.entries and state.room.has_due):
            return state.now_ms
        has_deadlines = state.is_adaptive and adapting.has_deadlines(state)
        if not (state.requests or state.down or state.recovery or has_deadlines):
            return None
        grace = state.recovery.grace_until_ms if state.recovery and not state.recovery.grace_passed else None
        due = [confirming.next_deadline_ms(state), limits.next_deadline_ms(state), grace]
        if state.is_adaptive:
            due.append(adapting.next_deadline_ms(state))
        return min((each for each in due if each is not None), default=None)

    @property
    def is_behind(self) -> bool:
        """True if ``wake`` has work to do at once."""
        due_ms = confirming.next_deadline_ms(self._state)
        has_work = bool(self._state.backlog) or self._state.room.has_due
        return has_work or (due_ms is not None and due_ms <= self._state.now_ms)

    @property
    def accepts_data(self) -> bool:
        """True if this broker is ready for publications; otherwise its links grant no data credit."""
        return self._state.accepts_data

    def table_sizes(self) -> dict[str, int]:
        """Return the number of entries of each routing table; this broker has no SRT."""
        return {"clt": len(self._state.clt), "prt": len(self._state.prt), "srt": 0}

    def civs(self, client: ClientId, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return the stored CIV and the target clusters of the advertisement with a client's handle, or None."""
        known = self._state.clients.get(client)
        advertisement = known.advertisements.get(handle) if known else None
        entry = self._state.clt.get(advertisement) if advertisement else None
        return (entry.civ, self._target_clusters(entry)) if entry else None

    @property
    def stranded(self) -> int:
        """The number of copies in the waiting room of adaptive routing."""
        return len(self._state.room)

    @property
    def bytes_waiting(self) -> int:
        """The approximate size of the publications that wait for neighbours, or for a way to their subscribers."""
        return super().bytes_waiting + self._state.room.size_bytes

    def check(self) -> None:
        """Raise InvariantBroken if an invariant does not hold."""
        invariants.check(self)

    def fingerprint(self) -> str:
        """Return a digest of the whole state; equal states have equal digests, in any process."""
        return fingerprint(self._state)

    def _target_clusters(self, entry: CltEntry) -> ClusterIndexVector:
        """Return the clusters that want an advertisement hosted here, this one only if it has a subscription (D2)."""
        if self._state.prt.any_intersecting(entry.offer):
            return entry.civ.with_bit(self._state.cluster)
        return entry.civ.without_bit(self._state.cluster)

    def _finish(self) -> None:
        """Handle a slice of the backlog, send confirmations, and enforce the limits of links that are down."""
        state = self._state
        if state.backlog:
            super()._finish()
        if state.room.entries and state.room.has_due:
            self._guard(self.id, adapting.retry_due, state)
        if state.confirmed:
            self._guard(self.id, confirming.send_confirmations, state)
        if state.down or state.room.entries:
            self._guard(self.id, limits.enforce, state)
        if state.is_adaptive and (state.links_changed or state.now_ms >= state.status_sender.next_look_ms):
            self._guard(self.id, adapting.tell_statuses, state)

    def _work(self, task: Task, peer: Peer, entries: Sequence[SubscriptionId | AdvertisementId]) -> None:
        """Handle a slice of the backlog."""
        state = self._state
        if isinstance(peer, ClientId):
            clients.withdraw(state, VERBS, peer, entries)
            return
        advertisements = cast("Sequence[AdvertisementId]", entries)
        if task is Task.CLEAR:
            answers.clear(state, filter(None, map(state.clt.get, advertisements)), answers.everything(state))
            return
        if peer in state.neighbourhood.secondary_neighbours:
            exchanging.continue_over_ilink(state, task, peer, advertisements)
            return
        subscriptions = cast("Sequence[SubscriptionId]", entries)
        match task:
            case Task.ANSWER:
                exchanging.answer(state, peer, subscriptions)
            case Task.DIGEST:
                exchanging.send_part(state, peer, subscriptions)
            case Task.REMOVE:
                exchanging.remove(state, peer, subscriptions)
            case Task.SETTLE:
                confirming.settle(state, subscriptions)

    # Dispatch.

    def _receive_from_broker(self, sender: BrokerId, batch: Sequence[Message]) -> None:
        if sender not in self._state.queues:
            raise ProtocolViolation(f"broker {self.id} has no neighbour {sender}")
        index = 0
        while index < len(batch):
            message = batch[index]
            if isinstance(message, Publish):
                run: list[Publish] = []
                is_plain = gather(batch if type(batch) is list else list(batch), index, run)
                if not is_plain or self._state.settings.detail >= _HOPS:
                    self._check_publications(sender, run)
                placing.accept(self._state, sender, run)
                index += len(run)
                continue
            self._on_control(sender, message)
            index += 1

    def _check_publications(self, sender: BrokerId, run: list[Publish]) -> None:
        """Trace publications, and raise ProtocolViolation for a header that this broker cannot have been sent."""
        state = self._state
        for publication in run:
            carried = publication.publication_civ
            if carried is not None and carried.bits >> state.neighbourhood.clusters:
                raise ProtocolViolation(
                    f"{publication.id} came from {sender} with {carried}, which names an unknown cluster"
                )
            if publication.detour is not None:
                adapting.check_detour(state, sender, publication, publication.detour)
            elif carried is not None and state.is_adaptive:
                raise ProtocolViolation(
                    f"{publication.id} came from {sender} with {carried} and without a detour: expected both or none"
                )
            if state.settings.detail:
                state.trace_receive(sender, publication)

    def _on_control(self, sender: BrokerId, message: Message) -> None:
        state = self._state
        match message:
            case Advertise() | Unadvertise():
                self._require(sender, LinkKind.ILINK, message)
                if message.id.host_broker != sender:
                    raise ProtocolViolation(f"{sender} may send its own advertisements only, got {message.id}")
                state.trace_receive(sender, message)
                if isinstance(message, Advertise):
                    advertising.on_advertise(state, sender, message)
                else:
                    advertising.on_unadvertise(state, message)
                exchanging.advertisement_arrived(state, sender, message.id)
                state.trace_table("clt", len(state.clt))
            case CivSet() | CivUnset() | CivNone() | CivState():
                self._require(sender, LinkKind.ILINK, message)
                state.trace_receive(sender, message)
                advertising.on_civ_update(state, sender, message)
            case Subscribe() | Unsubscribe():
                self._require(sender, LinkKind.ALINK, message)
                if message.id.host_broker.cluster != state.cluster:
                    raise ProtocolViolation(
                        f"{sender} may send subscriptions of its own cluster only, got {message.id}"
                    )
                state.trace_receive(sender, message)
                if isinstance(message, Subscribe):
                    subscribing.on_subscribe(state, sender, message)
                else:
                    subscribing.on_unsubscribe(state, sender, message)
                exchanging.subscription_arrived(state, sender, message.id)
                state.trace_table("prt", len(state.prt))
            case Confirm() | SubscriptionDigest():
                self._require(sender, LinkKind.ALINK, message)
                state.trace_receive(sender, message)
                if isinstance(message, Confirm):
                    confirming.on_confirm(state, sender, message)
                else:
                    exchanging.on_subscription_digest(state, sender, message)
            case CivAck() | AdvertisementDigest():
                self._require(sender, LinkKind.ILINK, message)
                state.trace_receive(sender, message)
                if isinstance(message, CivAck):
                    confirming.on_civ_ack(state, sender, message)
                else:
                    exchanging.on_advertisement_digest(state, sender, message)
            case Fetch():
                state.trace_receive(sender, message)
                exchanging.on_fetch(state, sender, message)
            case LinkStatuses():
                self._require(sender, LinkKind.ILINK, message)
                state.trace_receive(sender, message)
                adapting.on_statuses(state, sender, message)
            case GapNotice():
                state.trace_receive(sender, message)
                losses.on_notice(state, sender, message)
            case _:
                raise ProtocolViolation(f"a {type(message).__name__} cannot come from broker {sender}")

    def _receive_from_client(self, client: ClientId, batch: Sequence[Message]) -> None:
        if client not in self._state.clients:
            raise ProtocolViolation(f"client {client} is not attached to broker {self.id}")
        index = 0
        while index < len(batch):
            message = batch[index]
            if isinstance(message, PublishRequest):
                run = _run_of(batch, message, index)
                placing.accept(self._state, client, run)
                index += len(run)
                continue
            if not isinstance(message, clients.ControlRequest):
                raise ProtocolViolation(f"a {type(message).__name__} cannot come from client {client}")
            self._on_request(client, message)
            index += 1

    def _on_request(self, client: ClientId, request: clients.ControlRequest) -> None:
        state = self._state
        clients.on_request(state, VERBS, client, request)
        if isinstance(request, AdvertiseRequest | UnadvertiseRequest):
            state.trace_table("clt", len(state.clt))
        else:
            state.trace_table("prt", len(state.prt))

    def _use_room(self, peer: BrokerId, traffic_class: int) -> None:
        """Place the copies that waited for the room just made; ``drain_effects`` returns the effects."""
        state = self._state
        state.effects = self._unblocked = self._unblocked or Effects()
        placing.room_was_made(state, peer, traffic_class)
        if len(state.room):
            adapting.retry_refused(state, (peer, traffic_class))
        if state.down or len(state.room):
            limits.enforce(state)

    def _require(self, sender: BrokerId, kind: LinkKind, message: BrokerMessage) -> None:
        if self._state.kind_of(sender) is not kind:
            raise ProtocolViolation(f"a {message.kind} cannot come from {sender}: it travels over {kind}s only")


def _run_of(batch: Sequence[Message], first: _T, start: int) -> list[_T]:
    """Return the unbroken run of messages of one type that begins with ``first`` at ``start``."""
    run = [first]
    if start + 1 == len(batch):
        return run
    for message in batch[start + 1 :]:
        if type(message) is not type(first):
            break
        run.append(message)
    return run
