"""The OctopiA broker.

Theory of operation
-------------------

A broker is a state machine. A driver feeds it inputs, each with the time: messages that arrived over a link
(``receive``), a client that came or went (``attach``, ``detach``), a link that can carry more (``take``), a deadline
that passed (``wake``). It answers with effects. It has no clock, no sockets, no randomness; the same inputs in the
same order give the same effects, in the simulator and on the network.

It knows its neighbourhood and nothing more of the overlay: primary neighbours over aLinks, secondary neighbours over
iLinks. It keeps two tables. The CLT holds the advertisements of its *region*, the PRT the subscriptions of its
*cluster*; the two never need to meet at one broker to make a path, which is what frees publications to change links
without any table being changed. What joins them are bits: at the host broker of a publisher, each advertisement has a
cluster index vector that says which clusters want what it offers.

Messages are handled one at a time, in order:

==================  ==================  ===========================================================================
message             from                what the broker does
==================  ==================  ===========================================================================
AdvertiseRequest    client              store with the own bit set, tell all secondary neighbours
Advertise           secondary           store; if the PRT has an intersecting subscription, answer CivSet
SubscribeRequest    client              store, tell all primary neighbours; CivSet for bits that were 0
Subscribe           primary             the same, but not back to the sender
CivSet, CivUnset    secondary           set or clear the sender's bit in advertisements hosted here
Un…                 as above            the reverse
PublishRequest      client              refuse, or deliver and route by the OR of its advertisements' CIVs
Publish             any neighbour       deliver and route by the PRT and by the publication's own CIV
==================  ==================  ===========================================================================

Whatever it sends waits in output queues that belong to the broker, so that their lengths, and the congestion they show,
mean the same under every driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeVar, assert_never

from octopia.broker import advertising, clients, invariants, publishing, subscribing
from octopia.broker.civ import ClusterIndexVector
from octopia.broker.fingerprint import fingerprint
from octopia.broker.interface import (
    ALL_CLASSES,
    Counters,
    Detail,
    Effects,
    Event,
    Fact,
    Overflow,
    Placed,
    Routed,
    Verdict,
)
from octopia.broker.messages import (
    Advertise,
    AdvertiseRequest,
    BrokerMessage,
    CivSet,
    CivUnset,
    ClientRequest,
    CutOff,
    Deliver,
    Lost,
    Message,
    Publish,
    PublishRequest,
    Refused,
    Subscribe,
    SubscribeRequest,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from octopia.broker.queues import LinkStatus, OutputQueue
from octopia.broker.state import BrokerSettings, Client, State
from octopia.broker.tables import Clt, CltEntry, Prt
from octopia.errors import ProtocolViolation
from octopia.ids import BrokerId, ClientId, LinkKind, Peer
from octopia.matching import SCAN, MatcherFactory
from octopia.overlay.neighbourhood import Neighbourhood

_RECENT_INPUTS = 32

_T = TypeVar("_T", Publish, PublishRequest)


class OctopiaBroker:
    """A broker of the paper's system, for static and for dynamic routing."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        settings: BrokerSettings,
        incarnation: int = 1,
        matchers: MatcherFactory = SCAN,
    ):
        neighbours = (*neighbourhood.primary_neighbours, *neighbourhood.secondary_neighbours)
        routing = settings.routing
        self._state = State(
            neighbourhood,
            settings,
            incarnation,
            clt=Clt(matchers.advertisements()),
            prt=Prt(matchers.subscriptions()),
            queues={neighbour: OutputQueue(routing.tau, routing.window_ms) for neighbour in neighbours},
        )
        self._recent: deque[tuple[float, Peer, Sequence[Message]]] = deque(maxlen=_RECENT_INPUTS)

    # Inputs.

    def attach(self, client: ClientId, overflow: Overflow, now_ms: float) -> Effects:
        """Take note of a new client."""
        state = self._begin(now_ms)
        if client in state.clients:
            state.effects.violation = ProtocolViolation(f"client {client} is already attached to broker {self.id}")
            return state.effects
        state.clients[client] = Client(overflow)
        state.queues[client] = OutputQueue(state.settings.routing.tau, state.settings.routing.window_ms)
        return state.effects

    def detach(self, client: ClientId, now_ms: float) -> Effects:
        """Withdraw all that a client issued, and forget it; what waited for it is lost."""
        state = self._begin(now_ms)
        if client in state.clients:
            clients.withdraw_everything(state, client)
            del state.clients[client]
            del state.queues[client]
        return state.effects

    def receive(self, peer: Peer, batch: Sequence[Message], now_ms: float) -> Effects:
        """Handle the messages that arrived together over one link, in order."""
        state = self._begin(now_ms)
        self._recent.append((now_ms, peer, batch))
        try:
            if isinstance(peer, ClientId):
                self._receive_from_client(peer, batch)
            else:
                self._receive_from_broker(peer, batch)
        except ProtocolViolation as violation:
            state.effects.violation = violation
        for client in state.effects.cut_off:
            clients.withdraw_everything(state, client)
            publishing.tell_cut_off(state, client)
        return state.effects

    def take(self, peer: Peer, now_ms: float, classes: int = ALL_CLASSES) -> Message | None:
        """Take the next message for a link: control first, then the oldest of the data classes in the mask."""
        state = self._state
        state.now_ms = now_ms
        queue = state.queues[peer]
        if isinstance(peer, ClientId):
            return self._take_for_client(peer, queue, classes)
        if state.settings.detail >= Detail.ALL:
            state.trace_window(peer)
        message = queue.take(now_ms, classes)
        if message is not None:
            assert not isinstance(message, Deliver | Refused | CutOff | Lost | ClientRequest)
            state.counters.sent[message.kind] += 1
            if state.settings.detail >= Detail.HOPS:
                state.facts.append(state.fact_about(Event.SEND, peer, message))
        return message

    def wake(self, now_ms: float) -> Effects:
        """Do what is due; so far nothing in this broker waits for time to pass."""
        return self._begin(now_ms).effects

    def force(self, peer: BrokerId, verdict: Verdict, queue_length: int | None, now_ms: float) -> None:
        """Decide by hand whether a link is congested, and which queue length stands in for the real one."""
        self._begin(now_ms)
        queue = self._state.queues[peer]
        queue.verdict = verdict
        queue.forced_length = queue_length

    # What can be asked.

    @property
    def id(self) -> BrokerId:
        """Which broker this is."""
        return self._state.id

    @property
    def state(self) -> State:
        """The state, for invariants and reports; drivers leave it alone."""
        return self._state

    @property
    def counters(self) -> Counters:
        """What it has counted."""
        return self._state.counters

    @property
    def next_deadline_ms(self) -> float | None:
        """When ``wake`` must be called at the latest, or None."""
        return None

    @property
    def recent_inputs(self) -> list[str]:
        """The last inputs, oldest first, as one line each."""
        return [f"{now_ms:g} ms, from {peer}: {list(batch)!r}" for now_ms, peer, batch in self._recent]

    def table_sizes(self) -> dict[str, int]:
        """Count the entries of each routing table; this broker has no SRT."""
        return {"clt": len(self._state.clt), "prt": len(self._state.prt), "srt": 0}

    def link_status_table(self, now_ms: float) -> dict[BrokerId, LinkStatus]:
        """Return the Link Status Table."""
        return {peer: queue.status(now_ms) for peer, queue in self._state.queues.items() if isinstance(peer, BrokerId)}

    def civs(self, client: ClientId, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return the stored CIV and the target clusters of what a client advertised as ``handle``, or None."""
        known = self._state.clients.get(client)
        advertisement = known.advertisements.get(handle) if known else None
        entry = self._state.clt.get(advertisement) if advertisement else None
        return (entry.civ, self._target_clusters(entry)) if entry else None

    def check(self) -> None:
        """Raise InvariantBroken if something that must always hold does not."""
        invariants.check(self)

    def drain_facts(self) -> list[Fact | Routed]:
        """Hand over the facts since the last call."""
        facts, self._state.facts = self._state.facts, []
        return facts

    def fingerprint(self) -> str:
        """Digest the whole state: equal states give equal texts, in any process."""
        return fingerprint(self._state)

    def _target_clusters(self, entry: CltEntry) -> ClusterIndexVector:
        """Return the clusters that want an advertisement hosted here, its own among them only if it does (D2)."""
        if self._state.prt.any_intersecting(entry.offer):
            return entry.civ.with_bit(self._state.cluster)
        return entry.civ.without_bit(self._state.cluster)

    # Dispatch.

    def _begin(self, now_ms: float) -> State:
        self._state.now_ms = now_ms
        self._state.effects = Effects()
        return self._state

    def _receive_from_broker(self, sender: BrokerId, batch: Sequence[Message]) -> None:
        if sender not in self._state.queues:
            raise ProtocolViolation(f"broker {self.id} has no neighbour {sender}")
        index = 0
        while index < len(batch):
            message = batch[index]
            if isinstance(message, Publish):
                run = _run_of(batch, index, Publish)
                self._on_publications(sender, run)
                index += len(run)
                continue
            self._on_control(sender, message)
            index += 1

    def _on_publications(self, sender: BrokerId, run: list[Publish]) -> None:
        state = self._state
        for publication in run:
            carried = publication.publication_civ
            if carried is not None and carried.bits >> state.neighbourhood.clusters:
                raise ProtocolViolation(
                    f"{publication.id} came from {sender} with {carried}, which names no cluster here"
                )
        matches = state.prt.match_many([each.publication for each in run])
        placed: dict[int, int] = {}
        for publication, match in zip(run, matches, strict=True):
            self._trace_receive(sender, publication)
            publishing.route_from_broker(state, sender, publication, match)
            traffic_class = publication.traffic_class
            placed[traffic_class] = placed.get(traffic_class, 0) + 1
        state.effects.placed += [Placed(sender, traffic_class, frames) for traffic_class, frames in placed.items()]

    def _on_control(self, sender: BrokerId, message: Message) -> None:
        state = self._state
        match message:
            case Advertise() | Unadvertise():
                self._require(sender, LinkKind.ILINK, message)
                if message.id.host_broker != sender:
                    raise ProtocolViolation(f"{sender} may speak of its own advertisements only, not of {message.id}")
                self._trace_receive(sender, message)
                if isinstance(message, Advertise):
                    advertising.on_advertise(state, sender, message)
                else:
                    advertising.on_unadvertise(state, message)
                self._trace_table("clt", len(state.clt))
            case CivSet() | CivUnset():
                self._require(sender, LinkKind.ILINK, message)
                self._trace_receive(sender, message)
                advertising.on_civ_update(state, sender, message)
            case Subscribe() | Unsubscribe():
                self._require(sender, LinkKind.ALINK, message)
                if message.id.host_broker.cluster != state.cluster:
                    raise ProtocolViolation(
                        f"{sender} may speak of its own cluster's subscriptions only, not of {message.id}"
                    )
                self._trace_receive(sender, message)
                if isinstance(message, Subscribe):
                    subscribing.on_subscribe(state, sender, message)
                else:
                    subscribing.on_unsubscribe(state, sender, message)
                self._trace_table("prt", len(state.prt))
            case _:
                raise ProtocolViolation(f"a {type(message).__name__} cannot come from broker {sender}")

    def _receive_from_client(self, client: ClientId, batch: Sequence[Message]) -> None:
        if client not in self._state.clients:
            raise ProtocolViolation(f"client {client} is not attached to broker {self.id}")
        index = 0
        while index < len(batch) and not self._state.clients[client].is_cut_off:
            message = batch[index]
            if isinstance(message, PublishRequest):
                run = _run_of(batch, index, PublishRequest)
                self._on_publish_requests(client, run)
                index += len(run)
                continue
            if not isinstance(message, ClientRequest):
                raise ProtocolViolation(f"a {type(message).__name__} cannot come from client {client}")
            self._on_request(client, message)
            index += 1

    def _on_publish_requests(self, publisher: ClientId, run: list[PublishRequest]) -> None:
        state = self._state
        accepted: list[tuple[Publish, list[CltEntry]]] = []
        for request in run:
            outcome = publishing.accept(state, publisher, request)
            if isinstance(outcome, str):
                clients.refuse(state, publisher, request, request.sequence, outcome)
            else:
                accepted.append(outcome)
                state.trace_request(
                    publisher, Publish.kind, outcome[0].id, request.sequence, published_ms=request.published_ms
                )
        matches = state.prt.match_many([publication.publication for publication, _ in accepted])
        for (publication, advertisements), match in zip(accepted, matches, strict=True):
            publishing.route_from_client(state, publisher, publication, advertisements, match)
        state.effects.placed.append(Placed(publisher, 0, len(run)))

    def _on_request(self, client: ClientId, request: ClientRequest) -> None:
        state = self._state
        match request:
            case AdvertiseRequest():
                clients.on_advertise_request(state, client, request)
                self._trace_table("clt", len(state.clt))
            case UnadvertiseRequest():
                clients.on_unadvertise_request(state, client, request)
                self._trace_table("clt", len(state.clt))
            case SubscribeRequest():
                clients.on_subscribe_request(state, client, request)
                self._trace_table("prt", len(state.prt))
            case UnsubscribeRequest():
                clients.on_unsubscribe_request(state, client, request)
                self._trace_table("prt", len(state.prt))
            case PublishRequest():
                self._on_publish_requests(client, [request])
            case _:
                assert_never(request)

    def _require(self, sender: BrokerId, kind: LinkKind, message: BrokerMessage) -> None:
        if self._state.kind_of(sender) is not kind:
            raise ProtocolViolation(f"a {message.kind} cannot come from {sender}: it travels over {kind}s only")

    def _take_for_client(self, client_id: ClientId, queue: OutputQueue, classes: int) -> Message | None:
        client = self._state.clients[client_id]
        if client.lost and not client.is_cut_off:
            lost, client.lost = client.lost, 0
            return Lost(lost)
        return queue.take(self._state.now_ms, classes)

    # Facts.

    def _trace_receive(self, sender: BrokerId, message: BrokerMessage) -> None:
        if self._state.settings.detail >= Detail.HOPS:
            self._state.facts.append(self._state.fact_about(Event.RECEIVE, sender, message))

    def _trace_table(self, name: str, size: int) -> None:
        if self._state.settings.detail >= Detail.ALL:
            self._state.facts.append(Fact(Event.TABLE, value=size, reason=name))


def _run_of(batch: Sequence[Message], start: int, kind: type[_T]) -> list[_T]:
    """Return the unbroken run of one type of message that begins at ``start``."""
    run: list[_T] = []
    for message in batch[start:]:
        if not isinstance(message, kind):
            break
        run.append(message)
    return run
