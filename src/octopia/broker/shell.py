"""The part of the broker protocol that is the same for every kind of broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from octopia.broker import clients, switching
from octopia.broker.common import CommonState, Task
from octopia.broker.interface import (
    Counters,
    Detail,
    Effects,
    Fact,
    ForClients,
    LinkCounters,
    LinkStatus,
    Routed,
    Verdict,
)
from octopia.broker.queues import OutputQueue, usual_copy_ms
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.protocol import ALL_CLASSES, Cause
from octopia.protocol.messages import Message, NeighbourMessage
from octopia.settings import Algorithm

S = TypeVar("S", bound=CommonState)

_ALL = Detail.ALL
_TOGETHER = (Task.CLEAR, Task.DIGEST)


class BrokerShell(Generic[S]):
    """A broker's state, the frame of its main input, and the answers that need nothing else."""

    __slots__ = ("_state",)

    def __init__(self, state: S):
        self._state = state

    @property
    def id(self) -> BrokerId:
        """The id of this broker."""
        return self._state.id

    @property
    def state(self) -> S:
        """The state, for invariants, reports and measurements; drivers must not use it."""
        return self._state

    @property
    def counters(self) -> Counters:
        """The counters of this broker's lifetime."""
        return self._state.counters

    @property
    def recent_inputs(self) -> list[str]:
        """The last inputs, oldest first, one line per input."""
        return self._state.recent_inputs

    def receive(self, peer: Peer, batch: Sequence[Message], now_ms: float) -> Effects:
        """Handle the messages that arrived together over one link, in order."""
        state = self._state
        effects = state.begin(now_ms)
        state.recent.append((now_ms, peer, batch))
        try:
            if isinstance(peer, ClientId):
                self._receive_from_client(peer, batch)
            else:
                self._receive_from_broker(peer, batch)
        except ProtocolViolation as violation:
            effects.violation = violation
        except Exception as failure:  # The effects so far are meant for others, and must not be lost.
            effects.failure = failure
        self._finish()
        return effects

    def _receive_from_client(self, client: ClientId, batch: Sequence[Message]) -> None:
        raise NotImplementedError

    def _receive_from_broker(self, sender: BrokerId, batch: Sequence[Message]) -> None:
        raise NotImplementedError

    def detach(self, client: ClientId, now_ms: float) -> Effects:
        """Remove a client and withdraw everything it issued."""
        effects = self._state.begin(now_ms)
        if client in self._state.clients:
            clients.remove(self._state, client)
            self._finish()
        return effects

    def _finish(self) -> None:
        """End an input: handle a slice of the backlog."""
        state, left = self._state, self._state.settings.slice_max
        while state.backlog and left > 0:
            task, peer, entries = state.next_slice(left)
            left -= len(entries)
            # Some entries are sent together. Of all other work, a failure ends that for one entry only.
            for part in [entries] if task in _TOGETHER else [[each] for each in entries]:
                self._guard(peer, self._work, task, peer, part)

    def _guard(self, peer: Peer, work: Callable[..., None], *arguments: object) -> None:
        """Do work outside a batch; a failure is an effect, because the other effects are meant for others."""
        try:
            work(*arguments)
        except Exception as failure:
            self._state.effects.failed += ((peer, failure),)

    def _work(self, task: Task, peer: Peer, entries: Sequence[SubscriptionId | AdvertisementId]) -> None:
        """Handle a slice of the backlog."""
        raise NotImplementedError

    @property
    def is_behind(self) -> bool:
        """True if ``wake`` has work to do at once."""
        return bool(self._state.backlog)

    def take(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> NeighbourMessage | None:
        """Remove and return the next message for a neighbour: control first, then the oldest data of the mask."""
        return self._state.take(peer, now_ms, classes)

    def take_all(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> list[NeighbourMessage]:
        """Remove and return everything that ``take`` would return now."""
        return self._state.take_all(peer, now_ms, classes)

    def has_control(self, peer: BrokerId) -> bool:
        """Return whether taking control messages for a neighbour does anything: some wait, or windows are traced."""
        return self._state.queues[peer].has_control or self._state.settings.detail >= _ALL

    def outlet(self, peer: BrokerId, now_ms: float) -> OutputQueue | None:
        """Return the queue to a neighbour if publications may be taken from it directly: never, by default."""
        return None

    def unplaced(self, peer: Peer) -> dict[int, int]:
        """Return the number of accepted publications from a link that still wait to be placed: none, by default."""
        return {}

    @property
    def unplaced_in_all(self) -> int:
        """The number of accepted publications that still wait to be placed: none, by default."""
        return 0

    @property
    def stranded(self) -> int:
        """The number of copies that wait for no link in particular: none, by default."""
        return 0

    @property
    def reroutes(self) -> bool:
        """True if copies that have not left over a link may go another way."""
        return self._state.settings.routing.algorithm is Algorithm.ADAPTIVE

    def carried(self, peer: BrokerId, copies: int, now_ms: float, is_acknowledgement: bool = False) -> None:
        """Note that a link has carried the oldest copies that were taken for it, or that they were acknowledged."""
        self._state.queues[peer].pace.finish(now_ms, copies, is_acknowledgement=is_acknowledgement)

    def reset_measurement(self, peer: BrokerId) -> None:
        """Forget how fast a link was, and which copies it carries: from now on it is slower or faster."""
        self._state.queues[peer].pace.forget()

    def link_accepts(self, peer: BrokerId, accepts: bool, now_ms: float) -> Effects:
        """Note whether a neighbour takes publications: by default, they wait until it does."""
        return self._state.begin(now_ms)

    def link_forgotten(self, peer: BrokerId, dropped: Sequence[Message], restarted: bool, now_ms: float) -> Effects:
        """Count the publications that a neighbour may not have handled before it lost its state."""
        return self._count_lost(Cause.UNACKNOWLEDGED, peer, dropped, now_ms)

    def batch_failed(self, peer: Peer, batch: Sequence[Message], now_ms: float) -> Effects:
        """Count the publications of a batch that ``receive`` could not handle to its end."""
        return self._count_lost(Cause.FAILED_BATCH, peer, batch, now_ms)

    def give_up(self, count: int, now_ms: float) -> Effects:
        """Count the publications that this broker must leave behind."""
        effects = self._state.begin(now_ms)
        self._state.count_loss(Cause.SHUTDOWN, count, None)
        return effects

    def _count_lost(self, cause: Cause, peer: Peer, messages: Sequence[Message], now_ms: float) -> Effects:
        effects = self._state.begin(now_ms)
        count = sum(message.size_bytes > 0 for message in messages)
        if count:
            self._state.count_loss(cause, count, peer)
        return effects

    def drain_for_clients(self) -> list[ForClients]:
        """Remove and return the entries for local clients, in the order in which they were made."""
        entries = self._state.for_clients
        if entries:
            self._state.for_clients = []
        return entries

    @property
    def has_facts(self) -> bool:
        """True if ``drain_facts`` returns any."""
        return bool(self._state.facts)

    def drain_facts(self) -> list[Fact | Routed]:
        """Remove and return the facts since the last call."""
        state = self._state
        facts, state.facts = state.facts, []
        return facts

    def force(self, peer: BrokerId, verdict: Verdict, queue_length: int | None, now_ms: float) -> None:
        """Override the congestion verdict of a link, and the queue length that routing sees."""
        self._state.begin(now_ms)
        queue = self._state.queues[peer]
        queue.verdict, queue.forced_length = verdict, queue_length

    def waits_for(self, peer: BrokerId) -> int:
        """Return the number of publications that wait for a neighbour."""
        return len(self._state.queues[peer])

    @property
    def bytes_waiting(self) -> int:
        """The approximate size of the publications that wait for neighbours."""
        return sum(queue.bytes_waiting for queue in self._state.queues.values())

    @property
    def subscriptions_searched(self) -> int:
        """The number of distinct subscriptions against which a publication is matched."""
        return self._state.subscriptions_searched

    def most_issued(self) -> tuple[int, int]:
        """Return the highest number of subscriptions, and of advertisements, that one client has in force."""
        clients = self._state.clients.values()
        subscriptions = max((len(client.subscriptions) for client in clients), default=0)
        return subscriptions, max((len(client.advertisements) for client in clients), default=0)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that routes now."""
        return self._state.algorithm

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """The algorithms that ``route_by`` takes."""
        return switching.choices(self._state.settings.routing.algorithm)

    def route_by(self, algorithm: Algorithm) -> None:
        """Route by another algorithm from now on; raise UsageError if this broker cannot."""
        switching.switch(self._state, algorithm)

    def issued(self) -> dict[ClientId, tuple[Sequence[int], Sequence[int]]]:
        """Return the handles of the advertisements and of the subscriptions of each local client."""
        clients = self._state.clients.items()
        return {client: (tuple(known.advertisements), tuple(known.subscriptions)) for client, known in clients}

    def link_status_table(self, now_ms: float) -> dict[BrokerId, LinkStatus]:
        """Return the Link Status Table."""
        queues = self._state.queues
        usual_ms = usual_copy_ms(queues.values(), now_ms) if self.reroutes else 0.0
        return {peer: queue.status(now_ms, usual_ms) for peer, queue in queues.items()}

    def link_counters(self, now_ms: float) -> dict[BrokerId, LinkCounters]:
        """Return the counters of the links to all neighbours."""
        return {peer: queue.counters(now_ms) for peer, queue in self._state.queues.items()}

    @property
    def published(self) -> int:
        """The number of publications of local clients that this broker has accepted."""
        return self._state.next_publication
