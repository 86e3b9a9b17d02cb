"""A node: one broker with the sessions of all its links, as one object without sockets or a clock.

Theory of operation
-------------------

A driver moves bytes and knows the time. A node does everything else: it numbers, acknowledges and resends frames,
grants and uses credit, feeds the broker, spreads deliveries to clients, drains, and gives up on the silent. The network
runtime, the simulator and the search of all interleavings drive this same object.

A driver calls an *input*, or several, and then ``ready``:

==================================  ===================================================================================
input                               when
==================================  ===================================================================================
``connect``, ``disconnect``         there is a new connection with a neighbour; a connection was lost
``admit``, ``attach``, ``detach``   a client greeted; a client without a session came, or went for good
``receive``                         items arrived together over one link
``pause``, ``resume``               a connection cannot carry more for now; it can again
``begin``, ``finish``               a paced link is free for a publication; it has carried it
``drain``                           accept no more publications
``acknowledge``                     ``acknowledges_by_ms`` has passed
``wake``                            ``next_deadline_ms`` has passed
==================================  ===================================================================================

``ready`` returns a ``Ready``, the work to do. These rules hold:

- Call ``ready`` AFTER every input, or after several that arrived together. Inputs only record; ``ready`` moves messages
  from the broker's queues into sessions and decides what to write.
- Do the work of one ``Ready`` in the order of its fields, and BEFORE the next call of ``ready``. Write its items in
  order: what an input caused is written BEFORE that input is acknowledged. A process that dies in between has not
  acknowledged what it did not pass on.
- Close connections AFTER the writes. A client that is cut off is told so by its last item.
- Call ``disconnect`` AFTER a connection is gone, also one that ``Ready`` asked to close or to drop. Items that were
  written and did not arrive are resent by the session; the driver keeps nothing.
- After ``ready``, call ``wake`` as soon as other inputs have had their turn if the node ``is_behind``: an input that is
  too long for one piece is continued in slices.
- Time never runs backwards. ``ready`` is cheap when there is nothing to do.

A failure in handling one peer closes that peer's link and is reported in ``Ready.failures``. The effects meant for
other peers are carried out all the same.

A client is known by its name and a session number. One that comes back under its name after its session ended is
another client: credit for the frames of the old session is never given to the new one.

Plain Python that Cython compiles (``core.pxd`` has the C types).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from octopia.broker import Broker, Delivered, Detail, Effects, Event, Fact, ForClients, LimitReached, Loss, Routed
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, LinkKind, Peer
from octopia.link import Outcome, Session
from octopia.markers import Mark
from octopia.node import producers
from octopia.node.alarms import Alarms
from octopia.node.budget import MemoryBudget
from octopia.node.fanout import Routes, fan_out
from octopia.node.flowing import can_write, flow, flow_to_client, output_of
from octopia.node.links import ClientLink, Link, NeighbourLink
from octopia.node.permissions import Permissions
from octopia.node.rates import Pause, PublishingRate, window_for
from octopia.node.ready import Close, Failure, Ready
from octopia.node.rest import held_bytes, is_at_rest, waiting
from octopia.node.settings import NodeSettings
from octopia.protocol import (
    CONTROL_ONLY,
    Cause,
    CloseCode,
    Frame,
    Hello,
    Item,
    MessageKind,
    Overflow,
)
from octopia.protocol.handshake import CLIENT_SESSIONS_MAX
from octopia.protocol.messages import (
    CutOff,
    Deliver,
    Message,
    Produced,
    ProduceRequest,
    PublishRequest,
    Repeated,
    SubscribeRequest,
    UnsubscribeRequest,
)
from octopia.settings import Limit


class Node:
    """A broker and the sessions of its links."""

    __slots__ = (
        "_admits",
        "_alarms",
        "_budget",
        "_client_sessions",
        "_dirty",
        "_drains_with",
        "_facts",
        "_held_back",
        "_inputs",
        "_is_draining",
        "_last_words",
        "_names",
        "_owing",
        "_paced_clients",
        "_postponed",
        "_producers",
        "_routes",
        "_settings",
        "_touched",
        "_work",
        "broker",
        "clients",
        "incarnation",
        "last_data_ms",
        "links",
    )

    MARKS: ClassVar[Mapping[str, Mark]] = {
        "_alarms": Mark.DERIVED,
        "_facts": Mark.HISTORY,
        "_paced_clients": Mark.DERIVED,
        "_routes": Mark.HISTORY,
        "_settings": Mark.FIXED,
        "last_data_ms": Mark.HISTORY,
    }

    def __init__(
        self,
        broker: Broker,
        neighbours: Iterable[BrokerId],
        incarnation: int,
        settings: NodeSettings = NodeSettings(),  # noqa: B008 (it is frozen)
    ):
        self.broker = broker
        self.incarnation = incarnation
        self._settings = settings
        self.links = {peer: NeighbourLink(peer, self._new_session(incarnation)) for peer in neighbours}
        self.clients: dict[ClientId, ClientLink] = {}
        self._names: dict[str, ClientId] = {}
        self._routes = Routes(self.clients)
        self._client_sessions = 0
        self.last_data_ms = 0.0
        self._admits = broker.accepts_data
        self._budget = MemoryBudget(settings.memory_bytes)
        self._is_draining = False
        self._drains_with: dict[Peer, None] = {}
        # What the next ``ready`` has to look at.
        self._dirty: dict[Peer, None] = {}
        self._postponed: dict[Peer, None] = {}
        self._touched: dict[Link, None] = {}
        self._inputs: dict[Peer, None] = {}
        self._owing: dict[Peer, None] = {}
        self._last_words: list[tuple[Peer, Sequence[Item] | Sequence[Message]]] = []
        self._work = Ready()
        self._held_back: dict[ClientId, Pause] = {}
        self._facts: list[Fact] = []
        self._alarms = Alarms(self.clients)
        self._paced_clients = 0
        self._producers: dict[str, int] = {}

    def _new_session(self, incarnation: int) -> Session | None:
        links = self._settings.neighbour_links
        return None if links is None else Session(incarnation, links)

    # Links to neighbours.

    def connect(self, peer: BrokerId, now_ms: float) -> None:
        """Greet a neighbour over a new connection; an older one is over."""
        self.disconnect(peer, now_ms)
        link = self.links[peer]
        link.has_departed = False
        if link.session is not None:
            link.session.accept_data(self.accepts_data_from(peer))
            link.session.connected(now_ms)
        self._dirty[peer] = None

    def disconnect(self, peer: Peer, now_ms: float, *, has_left: bool = False) -> None:
        """Record that a connection is gone.

        A neighbour that ``has_left`` went down in order and takes nothing more. A client that has left is removed; any
        other may return before its grace period ends.
        """
        link = self._link(peer)
        if link is None:
            return
        link.is_paused = False
        was_up = link.session is not None and link.session.disconnected()
        if isinstance(link, NeighbourLink):
            link.has_departed = has_left
            if has_left and link.session is not None:
                link.departed = link.session.peer_incarnation
            if was_up:
                self._link_down(link, now_ms)
        elif has_left:
            self.detach(link.peer, now_ms)
        else:
            link.is_connected = False
            keep_ms = min(link.keep_ms, self._settings.client_keep_max_ms)
            link.expires_ms = now_ms + max(self._settings.client_grace_ms, keep_ms)
            self._alarms.set(link)

    def incarnation_of(self, peer: BrokerId) -> int:
        """Return the last incarnation of a neighbour, 0 before its first greeting."""
        session = self.links[peer].session
        return 0 if session is None else session.peer_incarnation

    # Clients.

    def admit(
        self, name: str, overflow: Overflow, hello: Hello, now_ms: float, permissions: Permissions | None = None
    ) -> ClientId | None:
        """Admit a client that greeted over a new connection, and return its id.

        A client whose session is remembered goes on where it was, unless its permissions have changed. Return None if
        the name belongs to another client that is connected, or to the holder of another token.
        """
        link = self.clients.get(self._names[name]) if name in self._names else None
        if link is not None and link.permissions != permissions:
            if link.permissions is None or permissions is None or link.permissions.holder != permissions.holder:
                return None
            self.detach(link.peer, now_ms)
            link = None
        if link is not None and link.session is not None and link.session.peer_incarnation != hello.incarnation:
            if link.is_connected:
                return None
            self.detach(link.peer, now_ms)
            link = None
        if link is None:
            link = self.clients[self.attach(name, overflow, now_ms)]
            link.permissions = permissions
        link.is_connected, link.is_paused, link.expires_ms = True, False, None
        assert link.session is not None
        link.session.disconnected()
        link.session.accept_data(self.accepts_data_from(link.peer))
        link.session.connected(now_ms)
        self.receive(link.peer, [hello], now_ms)
        self._alarms.set(link)
        return link.peer

    def attach(self, name: str, overflow: Overflow, now_ms: float) -> ClientId:
        """Add a client and return its id."""
        if name in self._names:
            raise UsageError(f"expected a client name that is not in use, got {name!r}")
        self._client_sessions += 1
        client = ClientId(name, self._client_sessions)
        links = self._settings.client_links
        incarnation = self.incarnation * CLIENT_SESSIONS_MAX + self._client_sessions
        limits, rate = self._settings.limits, None
        if links is not None and (limits.publications_per_second_per_client or limits.bytes_per_second_per_client):
            rate = PublishingRate(limits, now_ms)
            links = dataclasses.replace(links, window_bytes=window_for(limits, links.window_bytes))
        session = None if links is None else Session(incarnation, links)
        self.clients[client] = ClientLink(client, overflow, session, rate=rate)
        self._routes = Routes(self.clients)
        self._names[name] = client
        self._absorb(self.broker.attach(client, now_ms), now_ms)
        return client

    def client_named(self, name: str) -> ClientId | None:
        """Return the client that has a name now, or None."""
        return self._names.get(name)

    def detach(self, client: ClientId, now_ms: float) -> None:
        """Remove a client and withdraw everything that it issued; what waits for it is dropped."""
        link = self.clients.pop(client, None)
        if link is not None:
            self._touched.pop(link, None)
            self._paced_clients -= link.is_paced
            self._routes = Routes(self.clients)
            del self._names[client.name]
            self._held_back.pop(client, None)
            self._absorb(self.broker.detach(client, now_ms), now_ms)

    # Items.

    def receive(self, peer: Peer, items: Sequence[Item] | Sequence[Message], now_ms: float) -> None:
        """Handle the items that arrived together over one link; without a session they are the messages."""
        link = self._link(peer)
        if link is None:
            return
        if link.session is None:
            self._feed(peer, items, now_ms)  # type: ignore[arg-type]
            return
        try:
            outcome = link.session.receive(items, now_ms)  # type: ignore[arg-type]
        except Exception as error:  # It is this peer's link alone.
            self._fail(peer, error)
            return
        self._inputs[peer] = None
        if link.session.owes_ack:
            self._owing[peer] = None
        if outcome.is_fenced:
            self._fence(peer, link.session.peer_incarnation)
        if outcome.violation:
            self._close(peer, CloseCode.VIOLATION, outcome.violation)
        if outcome.came_up and isinstance(link, NeighbourLink):
            self._link_up(link, outcome, now_ms)
        elif outcome.admission_changed and isinstance(link, NeighbourLink):
            self._note_admission_by(link.peer, link.session, now_ms)
        if outcome.acknowledged and isinstance(link, NeighbourLink) and not link.is_paced and self.broker.reroutes:
            arrived_ms = now_ms - outcome.held_ms
            self.broker.carried(link.peer, outcome.acknowledged, arrived_ms, is_acknowledgement=True)
        messages = self._screened(link, outcome.messages) if isinstance(link, ClientLink) else outcome.messages
        if messages and not self._feed(peer, messages, now_ms):
            # The rest of the batch is gone with the connection. The next one has the whole window.
            self._absorb(self.broker.batch_failed(peer, messages, now_ms), now_ms)
            link.session.settle_credit(self.broker.unplaced(peer))
        self._dirty[peer] = None
        if isinstance(link, ClientLink):
            if link.rate is not None and messages:
                self._count_publications(link, link.rate, messages, now_ms)
            self._count_unanswered(link, items, now_ms)  # type: ignore[arg-type]

    def _link_up(self, link: NeighbourLink, outcome: Outcome, now_ms: float) -> None:
        """Record that a link carries messages, and what was lost if the neighbour does not remember this node."""
        assert link.session is not None
        # One that left in order has passed on everything, or has reported what it could not pass on.
        restarted = outcome.was_replaced and not link.departed
        link.departed = 0
        if outcome.forgotten or restarted:
            effects = self.broker.link_forgotten(link.peer, outcome.forgotten, restarted, now_ms)
            self._absorb(effects, now_ms)
        self._note_admission_by(link.peer, link.session, now_ms)
        self._absorb(self.broker.link_up(link.peer, now_ms), now_ms)

    def _note_admission_by(self, peer: BrokerId, session: Session, now_ms: float) -> None:
        """Report to the broker whether a neighbour takes publications."""
        if self.broker.reroutes:
            self._absorb(self.broker.link_accepts(peer, session.peer_accepts_data, now_ms), now_ms)

    def _link_down(self, link: NeighbourLink, now_ms: float) -> None:
        """Record that a link carries nothing; a publication that occupied it may go another way."""
        unsent: list[Message] = []
        if link.in_service is not None and self.broker.reroutes:
            unsent, link.in_service = [link.in_service], None
        self._absorb(self.broker.link_down(link.peer, now_ms, unsent), now_ms)

    def _feed(self, peer: Peer, messages: Sequence[Message], now_ms: float) -> bool:
        """Give messages to the broker, and return whether it handled them all."""
        effects = self.broker.receive(peer, messages, now_ms)
        if effects.violation is not None:
            self._close(peer, CloseCode.VIOLATION, str(effects.violation))
        if effects.failure is not None:
            self._fail(peer, effects.failure)
        self._absorb(effects, now_ms)
        return effects.violation is None and effects.failure is None

    def _fence(self, peer: Peer, incarnation: int) -> None:
        reason = f"a newer broker runs as {peer}, so this one is fenced: stop one of the two, then restart this one"
        self._close(peer, CloseCode.FENCED, reason, incarnation)

    def _screened(self, link: ClientLink, messages: list[Message]) -> list[Message]:
        """Record the requests of a client to this node, and return its messages for the broker."""
        if link.permissions is not None:
            messages = self._permitted(link, link.permissions, messages)
        is_for_broker = not link.producer
        for message in messages:
            if type(message) is SubscribeRequest:
                link.keep(message.handle, message.keep_ms)
            elif type(message) is UnsubscribeRequest:
                link.keep(message.handle, 0.0)
            elif type(message) is ProduceRequest:
                is_for_broker = False
        return messages if is_for_broker else self._produced(link, messages)

    def _permitted(self, link: ClientLink, permissions: Permissions, messages: Sequence[Message]) -> list[Message]:
        """Return what the permissions of a client allow, and refuse the rest."""
        allowed, refusals = permissions.screen(messages)
        for refusal in refusals:
            self.broker.counters.refused += 1
            link.mailbox.answer(refusal)
        publications = sum(each.request == MessageKind.PUBLICATION for each in refusals)
        if publications and link.session is not None:
            link.session.placed(0, publications)
        return allowed

    def _produced(self, link: ClientLink, messages: Sequence[Message]) -> list[Message]:
        """Answer requests to be a producer, and return the messages without publications that were there before."""
        at = producers.first_request(messages)
        if at >= 0:
            request, before = messages[at], self._produced(link, messages[:at])
            assert isinstance(request, ProduceRequest)
            link.producer = request.producer
            if link.permissions is not None:
                link.producer = link.permissions.producer(request.producer)
            link.mailbox.answer(Produced(request.producer, producers.begin(self._producers, link.producer)))
            return before + self._produced(link, messages[at + 1 :])
        if not link.producer or not messages:
            return list(messages)
        fresh = producers.screen(self._producers, link.producer, messages)
        repeated = len(messages) - len(fresh)
        if repeated:
            assert link.session is not None
            link.session.placed(0, repeated)
            link.mailbox.answer(Repeated(repeated, self._producers[link.producer]))
        return fresh

    def _count_unanswered(self, link: ClientLink, items: Sequence[Item], now_ms: float) -> None:
        """Disconnect a client that sends requests and never reads its answers."""
        if can_write(link, self._settings):
            link.unanswered = 0
            return
        link.unanswered += sum(type(item) is Frame for item in items)
        if link.unanswered > self._settings.client_queue_limit and link.peer in self.clients:
            self.detach(link.peer, now_ms)
            self._close(link.peer, CloseCode.TOO_SLOW, "it sends requests without reading the answers")

    def _count_publications(
        self, link: ClientLink, rate: PublishingRate, messages: Sequence[Message], now_ms: float
    ) -> None:
        """Hold back a client that publishes faster than it may."""
        sizes = [each.size_bytes for each in messages if type(each) is PublishRequest]
        exhausted = rate.spend(len(sizes), sum(sizes), now_ms) if sizes else None
        if exhausted is not None and link.peer in self.clients:
            if link.peer not in self._held_back:
                self._work.limits_reached += (LimitReached(link.peer, exhausted),)
            self._held_back[link.peer] = Pause(exhausted, rate.recovered_ms)

    def held_back(self, limit: Limit) -> int:
        """Return the number of clients that get no credit until they are within a rate again."""
        return sum(each.limit is limit for each in self._held_back.values())

    # The capacity of links.

    def pause(self, peer: Peer) -> None:
        """Record that a connection can carry nothing more for now."""
        link = self._link(peer)
        if link is not None:
            link.is_paused = True

    def resume(self, peer: Peer) -> None:
        """Record that a connection can carry more again."""
        link = self._link(peer)
        if link is not None:
            link.is_paused = False
            self._dirty[peer] = None

    def pace(self, peer: Peer, is_paced: bool) -> None:
        """Set whether publications over a link leave freely, or one by one by ``begin``."""
        link = self._link(peer)
        if link is None or link.is_paced == is_paced:
            return
        link.is_paced = is_paced
        if isinstance(link, ClientLink):
            self._paced_clients += 1 if is_paced else -1
        else:
            # A paced link tells the end of each copy, the others have acknowledgements. A copy that was taken under
            # one and would end under the other would look as if it were still on its way.
            self.broker.reset_measurement(link.peer)
        if not is_paced:
            self._dirty[peer] = None

    def can_begin(self, peer: BrokerId) -> bool:
        """Return whether ``begin`` may find a publication for a neighbour."""
        link = self.links[peer]
        is_open = link.session is None or (link.session.classes != CONTROL_ONLY and not link.is_paused)
        return is_open and link.in_service is None and self.broker.waits_for(peer) > 0

    def begin(self, peer: Peer, now_ms: float) -> Message | None:
        """Take the next publication for a paced link that is free, or return None.

        With a session it is written by ``finish``, so control messages can still go ahead of it. Without one it is the
        driver's to carry.
        """
        link = self._link(peer)
        if isinstance(link, ClientLink):
            return link.mailbox.take_delivery()
        if link is None or not self.can_begin(link.peer):
            return None
        queue = self.broker.outlet(link.peer, now_ms) if link.session is None else None
        if queue is not None and not queue.has_control:
            self.broker.counters.sent[MessageKind.PUBLICATION] += 1
            return queue.take(now_ms)
        if link.session is None:
            message: Message | None = self.broker.take(link.peer, now_ms)
        else:
            message = link.in_service = self.broker.take(link.peer, now_ms, link.session.classes)
        unblocked = self.broker.drain_effects()
        if unblocked is not None:
            self._absorb(unblocked, now_ms)
        return message

    def carried(self, peer: BrokerId, until_ms: float) -> None:
        """Note until when a paced link without a session carries the publication that ``begin`` has returned."""
        if self.broker.reroutes:
            self.broker.carried(peer, 1, until_ms)

    def finish(self, peer: BrokerId, now_ms: float, *, busy_until_ms: float = 0.0) -> None:
        """Write the publication that has occupied a paced link, once the link is up.

        A driver may write it early, and let the link be busy for a while.
        """
        link = self.links[peer]
        if link.in_service is not None and link.session is not None and link.session.is_up:
            link.session.send(link.in_service, now_ms)
            link.in_service = None
            self.broker.carried(peer, 1, max(now_ms, busy_until_ms))
            self._dirty[peer] = None

    # Admission.

    def give_up(self, now_ms: float) -> None:
        """Send notices to everybody if this node goes down with publications that it could not pass on."""
        count = waiting(self.broker, self.links.values())
        if count or any(link.session is not None and link.session.kept_bytes for link in self.links.values()):
            self._absorb(self.broker.give_up(count, now_ms), now_ms)

    def drain(self, together: Collection[Peer] = ()) -> None:
        """Accept no more publications, except from brokers that drain at the same time."""
        self._is_draining = True
        self._drains_with = dict.fromkeys(together)
        self._touch_all()

    @property
    def is_draining(self) -> bool:
        """True once ``drain`` was called."""
        return self._is_draining

    def accepts_data_from(self, peer: Peer) -> bool:
        """Return whether publications are accepted from a link now."""
        if peer in self._held_back or not self.broker.accepts_data:
            return False
        if self._budget.is_short and isinstance(peer, ClientId):
            return False
        return not self._is_draining or peer in self._drains_with

    @property
    def left_behind(self) -> int:
        """The number of publications and deliveries that wait here."""
        deliveries = sum(len(link.mailbox.deliveries) for link in self.clients.values())
        return waiting(self.broker, self.links.values()) + deliveries

    @property
    def is_at_rest(self) -> bool:
        """True if nothing waits here that can still leave, and everything written is acknowledged."""
        return not self.is_behind and is_at_rest(self.broker, self.links.values(), self.clients.values())

    @property
    def held_bytes(self) -> int:
        """The approximate size of all publications that wait here or are not acknowledged."""
        return held_bytes(self.broker, self.links.values(), self.clients.values())

    # Time.

    @property
    def next_deadline_ms(self) -> float | None:
        """The time by which ``wake`` must be called, or None."""
        settings = self._settings
        if settings.neighbour_links is None and settings.client_links is None:
            return self.broker.next_deadline_ms
        if self._postponed:
            return 0.0
        due = [self.broker.next_deadline_ms, self._alarms.next_ms()]
        due += [each.until_ms for each in self._held_back.values()]
        due += [link.session.next_deadline_ms for link in self.links.values() if link.session is not None]
        return min((each for each in due if each is not None), default=None)

    @property
    def is_behind(self) -> bool:
        """True if ``wake`` has work to do at once; a driver lets other inputs go first, so that none waits for long."""
        return bool(self._postponed) or self.broker.is_behind

    def wake(self, now_ms: float) -> None:
        """Do everything that is due."""
        self._dirty |= self._postponed
        self._postponed.clear()
        self.wake_broker(now_ms)
        if self._settings.memory_bytes:
            self._keep_to_budget(now_ms)
        clients = self._alarms.take(now_ms)
        links: list[Link] = [*self.links.values(), *clients]
        for link in links:
            if link.session is not None:
                self._wake_session(link.peer, link.session, now_ms)
        for held in [each for each, pause in self._held_back.items() if now_ms >= pause.until_ms]:
            del self._held_back[held]
            self._dirty[held] = None
        for client in clients:
            if client.expires_ms is not None and now_ms >= client.expires_ms:
                unread = client.session.unacknowledged_publications if client.session is not None else 0
                self._count_lost(Cause.CLIENT_GONE, len(client.mailbox.deliveries) + unread, client.peer)
                self.detach(client.peer, now_ms)
            else:
                self._alarms.set(client)

    def wake_broker(self, now_ms: float) -> None:
        """Do what is due in the broker, and leave the sessions alone."""
        due_ms = self.broker.next_deadline_ms
        if due_ms is not None and now_ms >= due_ms:
            self._absorb(self.broker.wake(now_ms), now_ms)

    @property
    def owes_acks(self) -> bool:
        """True if an acknowledgement may wait for more frames."""
        return bool(self._owing)

    @property
    def acknowledges_by_ms(self) -> float | None:
        """The time by which ``acknowledge`` should be called, or None; ``next_deadline_ms`` is no later."""
        sessions = [link.session for link in map(self._link, self._owing) if link is not None]
        due = [session.acknowledges_by_ms for session in sessions if session is not None]
        return min((each for each in due if each is not None), default=None)

    def acknowledge(self) -> None:
        """Release all acknowledgements that wait for more frames."""
        owing, self._owing = self._owing, {}
        for peer in owing:
            link = self._link(peer)
            if link is not None and link.session is not None and link.session.owes_ack:
                link.session.acknowledge()
                self._dirty[peer] = None

    def _wake_session(self, peer: Peer, session: Session, now_ms: float) -> None:
        due_ms = session.next_deadline_ms
        if due_ms is None or now_ms < due_ms:
            return
        try:
            if session.wake(now_ms):
                self._dirty[peer] = None
            else:
                self._work.silent += (peer,)
        except Exception as error:  # Others have deadlines, too.
            self._fail(peer, error)

    # Work for the driver.

    def ready(self, now_ms: float) -> Ready:
        """Settle everything that inputs have caused, and return the work to do."""
        if not self._has_work():
            return Ready()
        self._settle(now_ms)
        if self._touched or self._inputs:  # The peer of an input may be gone.
            self._collect(now_ms)
        if self._last_words:
            self._work.writes += self._last_words
            self._last_words = []
        work, self._work = self._work, Ready()
        return work

    @property
    def has_work(self) -> bool:
        """True if ``ready`` has something to do."""
        return self._has_work()

    def _has_work(self) -> bool:
        if self._dirty or self._inputs or not self._work._is_empty():
            return True
        return not self._admits and self.broker.accepts_data

    @property
    def has_facts(self) -> bool:
        """True if ``drain_facts`` returns any."""
        return self.broker.has_facts or bool(self._facts)

    def drain_facts(self) -> list[Fact | Routed]:
        """Remove and return the facts of the trace since the last call."""
        facts = self.broker.drain_facts()
        if self._facts:
            facts += self._facts
            self._facts = []
        return facts

    def _collect(self, now_ms: float) -> None:
        """Gather the writes of all links that were touched; acknowledgements of inputs come last."""
        touched, self._touched = self._touched, {}
        inputs, self._inputs = self._inputs, {}
        for link in touched:
            self._write(link, now_ms, not inputs or link.peer not in inputs)
        for peer in inputs:
            source = self._link(peer)
            if source is not None and source.session is not None:
                self._write(source, now_ms, True)

    def _write(self, link: Link, now_ms: float, acknowledge: bool) -> None:
        try:
            items = output_of(link, now_ms, acknowledge)
        except Exception as error:  # Every other link must still get what is meant for it.
            self._fail(link.peer, error)
            items = ()
        if items or link.is_paced:
            self._work.writes.append((link.peer, items))

    def _settle(self, now_ms: float) -> None:
        """Move messages from queues into sessions until nothing more can move."""
        self._note_admission()
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for peer in dirty:
                link = self._link(peer)
                if link is None:
                    continue
                self._touched[link] = None
                try:
                    self._flow(link, now_ms)
                except Exception as error:  # Every other link must still get what is meant for it.
                    self._fail(peer, error)
                if type(link) is ClientLink:
                    continue  # Nothing was taken from the broker.
                unblocked = self.broker.drain_effects()
                if unblocked is not None:
                    self._absorb(unblocked, now_ms)
            self._note_admission()

    def _note_admission(self) -> None:
        """Open all windows when the broker has become ready for publications."""
        if not self._admits and self.broker.accepts_data:
            self._admits = True
            self._touch_all()

    def _flow(self, link: Link, now_ms: float) -> None:
        session = link.session
        if session is not None:
            session.accept_data(self.accepts_data_from(link.peer))
        if isinstance(link, NeighbourLink):
            if flow(self.broker, link, now_ms):
                self._postponed[link.peer] = None
            return
        flow_to_client(link, self._settings, now_ms)
        if session is not None and session.retransmits:  # Its deadline may be earlier now.
            self._alarms.set(link)

    def _absorb(self, effects: Effects, now_ms: float) -> None:
        """Collect the effects of an input of the broker."""
        entries = self.broker.drain_for_clients()
        if entries:
            if self._settings.whole:
                self._work.for_clients += entries
            elif self._settings.spreading and not self._paced_clients:
                self._hand_over(entries)
            else:
                self._spread(entries, now_ms)
        for peer in effects.ready:
            self._dirty[peer] = None
        if effects.limits_reached:
            self._work.limits_reached += tuple(effects.limits_reached)
        if effects.losses:
            self._work.losses += tuple(effects.losses)
        for failed, failure in effects.failed:
            self._fail(failed, failure)
        if not effects.placed:
            return
        self.last_data_ms = now_ms
        for placed in effects.placed:
            link = self._link(placed.peer)
            if link is not None and link.session is not None:
                try:
                    link.session.placed(placed.traffic_class, placed.frames)
                except Exception as error:  # Credit is due to other peers, too.
                    self._fail(placed.peer, error)
                self._dirty[placed.peer] = None

    def _close(self, peer: Peer, code: CloseCode, reason: str, incarnation: int = 0) -> None:
        self._work.closes += (Close(peer, code, reason, incarnation),)

    def _fail(self, peer: Peer, error: Exception) -> None:
        """Note a failure, once per peer: the first one closes its link, if it has one."""
        if any(each.peer == peer for each in self._work.failures):
            return
        self._work.failures += (Failure(peer, error),)
        if self._link(peer) is not None:
            self._close(peer, CloseCode.INTERNAL, f"an internal error: {type(error).__name__}")

    # Deliveries to clients.

    def _hand_over(self, entries: Sequence[ForClients]) -> None:
        """Leave deliveries to the driver, and put answers into mailboxes: they go ahead of deliveries."""
        for entry in entries:
            if isinstance(entry, Delivered):
                self._work.for_clients.append(entry)
                continue
            link = self.clients.get(entry.client)
            if link is not None:
                link.mailbox.answer(entry.reply)
                self._dirty[entry.client] = None

    def _spread(self, entries: Sequence[ForClients], now_ms: float) -> None:
        """Put entries into the mailboxes of clients, and cut off those that are too slow."""
        settings = self._settings
        limits = settings.client_queue_limit, settings.client_queue_bytes
        if self._routes.clients is not self.clients:
            self._routes = Routes(self.clients)
        losses = fan_out(entries, self._routes, *limits, self._dirty)
        if losses.deliveries:
            for client, count in Counter(client for client, _ in losses.deliveries).items():
                self._count_lost(Cause.SLOW_CLIENT, count, client)
            if self._settings.detail >= Detail.DELIVERIES:
                self._facts += [_fact_of_loss(client, delivery) for client, delivery in losses.deliveries]
        for client, lost in losses.cut_off.items():
            self._cut_off(self.clients[client], lost, now_ms)
        if settings.memory_bytes and self._budget.is_due(losses.added_bytes):
            self._keep_to_budget(now_ms)

    def _keep_to_budget(self, now_ms: float) -> None:
        """Give publishers no credit near the memory budget, and cut off the clients that hold most beyond it."""
        was_short = self._budget.is_short
        for link in self._budget.check(self.held_bytes, self.clients.values(), now_ms):
            lost = len(link.mailbox.take_deliveries())
            self._count_lost(Cause.SLOW_CLIENT, lost, link.peer)
            self._cut_off(link, lost, now_ms)
        if self._budget.is_short != was_short:
            self._touch_all()

    def _cut_off(self, link: ClientLink, lost: int, now_ms: float) -> None:
        """Send a slow client the number of its losses, and remove it."""
        last: Message = CutOff(lost)
        if link.session is None:
            self._last_words.append((link.peer, [last]))
        elif link.session.is_up:
            try:
                link.session.send(last, now_ms)
                self._last_words.append((link.peer, link.session.drain(now_ms)))
            except Exception as error:  # It goes without last words.
                self._fail(link.peer, error)
        self._close(link.peer, CloseCode.TOO_SLOW, "it was too slow for what it subscribed to")
        self.detach(link.peer, now_ms)

    @property
    def lost_by_slow_clients(self) -> int:
        """The number of deliveries that were lost because their clients were too slow."""
        return self.broker.counters.lost[Cause.SLOW_CLIENT]

    def _count_lost(self, cause: Cause, count: int, client: ClientId) -> None:
        """Enter the losses of a client into the broker's ledger."""
        if count:
            self.broker.counters.count_loss(cause, count)
            self._work.losses += (Loss(cause, count, client),)

    # Helpers.

    def _link(self, peer: Peer) -> Link | None:
        return self.links.get(peer) if type(peer) is BrokerId else self.clients.get(peer)  # type: ignore[arg-type]

    @property
    def _peers(self) -> list[Peer]:
        return [*self.links, *self.clients]

    def _touch_all(self) -> None:
        self._dirty.update(dict.fromkeys(self._peers))


def _fact_of_loss(client: ClientId, delivery: Deliver) -> Fact:
    fact = Fact(Event.DROP, MessageKind.PUBLICATION, delivery.id, client, LinkKind.CLIENT, hop=delivery.hop, value=1)
    fact.published_ms, fact.reason = delivery.published_ms, "the client is too slow"
    return fact


def introduce(one: Node, other: Node) -> None:
    """Connect two new nodes before time begins: an overlay that starts whole has nothing to exchange."""
    ends = [one.links[other.broker.id].session, other.links[one.broker.id].session]
    sessions = [session for session in ends if session is not None]
    for session in sessions:
        session.connected(0.0)
    for session, greeting in zip(sessions, [each.drain(0.0) for each in reversed(sessions)], strict=True):
        session.receive(greeting, 0.0)
