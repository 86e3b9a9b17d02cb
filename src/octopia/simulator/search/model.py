"""The whole overlay as a transition system.

A state holds the state of every node, the items under way on every directed channel, the broken links, the position of
every client in its script, the faults that are left, and the ledger. It is a tuple of tuples of small numbers; nodes
and items are stored elsewhere, once each. A transition is one of the following:

- the head of a channel arrives (channels are first in, first out, and may take any time);
- a client takes the next action of its script, or returns to a restarted host broker;
- one end of a broken connection notices, or the two ends get a new one;
- a fault strikes, a broker is restarted, a cut link is healed.

Transitions are listed in a fixed order, so a path is a list of numbers. A link that is cut loses the items on it, and
everything written to it until it is healed, which gives it a new connection. After a restart, every link of the broker
gets its new connection independently.

One reduction: an acknowledgement at the head of a channel arrives at once if it changes no window and no remaining
fault can affect its link. It only changes which frames are kept for a resend that can no longer happen, so it commutes
with all other transitions.
"""

from __future__ import annotations

import enum
import hashlib
import marshal
from collections.abc import Iterator
from typing import NamedTuple, assert_never

from octopia.broker import BrokerSettings
from octopia.ids import BrokerId
from octopia.link import Session, Status
from octopia.overlay import Scot, parse_tree
from octopia.protocol import CONTROL_ONLY, Ack, MessageKind
from octopia.protocol.messages import PublishRequest, Refused
from octopia.settings import RoutingSettings
from octopia.simulator.search.ledger import Ledger, Witness
from octopia.simulator.search.scenarios import CrashOf, CutOf, Fault, GraceOf, ImpostorOf, KillOf, ResendOver, Scenario
from octopia.simulator.search.steps import (
    Arrive,
    Ask,
    Attach,
    Connect,
    Crash,
    Impersonate,
    Input,
    Kill,
    Notice,
    PassGrace,
    Resend,
    Restart,
    Stations,
    Step,
)

WHOLE, CUT, BROKEN = range(3)
"""The state of a link: connected, cut, or without a connection since one end crashed."""


class Kind(enum.Enum):
    """The kind of a transition."""

    ARRIVE = "arrive"
    ACT = "act"
    RETURN = "return"
    NOTICE = "notice"
    CONNECT = "connect"
    RESTART = "restart"
    FAULT = "fault"


class Transition(NamedTuple):
    """A possible transition, with the index of its channel, client, link, broker or fault."""

    kind: Kind
    which: int


class State(NamedTuple):
    """A state of the whole overlay, in the order of the model's brokers, channels, links and clients."""

    stations: tuple[int, ...]
    channels: tuple[tuple[int, ...], ...]
    links: tuple[int, ...]
    scripts: tuple[int, ...]
    away: tuple[bool, ...]
    faults_left: int
    ledger: Ledger

    def digest(self) -> bytes:
        """Return a digest of 16 bytes of this state."""
        plain = (*self[:-1], *self.ledger)
        # Version 2 writes equal values as equal bytes; later versions also write whether objects are shared.
        return hashlib.blake2b(marshal.dumps(plain, 2), digest_size=16).digest()


class Draft:
    """A state under construction."""

    def __init__(self, state: State):
        self.stations = list(state.stations)
        self.channels = list(state.channels)
        self.links = list(state.links)
        self.scripts = list(state.scripts)
        self.away = list(state.away)
        self.faults_left = state.faults_left
        self.ledger = state.ledger
        self.complaint = ""

    def finish(self) -> State:
        """Return the state."""
        return State(
            tuple(self.stations),
            tuple(self.channels),
            tuple(self.links),
            tuple(self.scripts),
            tuple(self.away),
            self.faults_left,
            self.ledger,
        )


class Model:
    """The transition system of a scenario."""

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.scot = Scot(parse_tree(scenario.tree), scenario.clusters)
        routing = RoutingSettings(scenario.algorithm)
        settings = BrokerSettings(routing, self.scot.hop_bound, scenario.queue_capacity)
        self.stations = Stations(self.scot, settings, scenario.window_bytes, client_sessions=scenario.client_sessions)
        self.brokers = self.scot.brokers
        self.links = (*self.scot.alinks, *self.scot.ilinks)
        self.channels = tuple(pair for low, high in self.links for pair in ((low, high), (high, low)))
        self.witness = Witness(scenario)
        self._station_index = {broker: index for index, broker in enumerate(self.brokers)}
        self._channel_index = {channel: index for index, channel in enumerate(self.channels)}
        self._hosts = [self._station_index[client.broker] for client in scenario.clients]
        self._is_exposed = [any(_touches(each, link) for each in scenario.faults) for link in self.links]

    def begin(self) -> State:
        """Return the initial state of the search, after the requests in ``before`` have settled."""
        stations = self.stations.begin()
        draft = Draft(
            State(
                tuple(stations[broker] for broker in self.brokers),
                ((),) * len(self.channels),
                (WHOLE,) * len(self.links),
                (0,) * len(self.scenario.clients),
                (False,) * len(self.scenario.clients),
                self.scenario.fault_budget if self.scenario.faults else 0,
                Ledger(),
            )
        )
        for index, client in enumerate(self.scenario.clients):
            self._step(draft, self._hosts[index], Attach(client.name, ()))
            for _ in client.before:
                self._act(draft, index)
                self._settle(draft)
        if draft.complaint:
            raise AssertionError(f"before the search began, {draft.complaint}")
        return draft.finish()

    def transitions(self, state: State) -> list[Transition]:
        """Return the possible transitions, always in the same order."""
        enabled = [Transition(Kind.ARRIVE, index) for index, items in enumerate(state.channels) if items]
        for index, client in enumerate(self.scenario.clients):
            done = state.scripts[index]
            if state.away[index]:
                if self.stations[state.stations[self._hosts[index]]].broker is not None:
                    enabled.append(Transition(Kind.RETURN, index))
            elif done < len(client.actions) and self._may_act(state, index):
                enabled.append(Transition(Kind.ACT, index))
        if any(state.links):
            enabled += self._mending(state)
        if state.faults_left:
            enabled += [
                Transition(Kind.FAULT, index)
                for index, fault in enumerate(self.scenario.faults)
                if self._can_strike(state, fault)
            ]
        return enabled

    def follow(self, state: State, transition: Transition) -> tuple[State, str]:
        """Return the state after a transition, and the violation it causes, or an empty text."""
        draft = Draft(state)
        index = transition.which
        match transition.kind:
            case Kind.ARRIVE:
                self._arrive(draft, index)
            case Kind.ACT:
                self._act(draft, index)
            case Kind.RETURN:
                draft.away[index] = False
                held = self.witness.in_force(index, draft.scripts[index])
                name = self.scenario.clients[index].name
                self._step(draft, self._hosts[index], Attach(name, held.requests))
            case Kind.NOTICE:
                broker, peer = self.channels[index]
                self._step(draft, self._station_index[broker], Notice(peer))
            case Kind.CONNECT:
                self._connect(draft, index)
            case Kind.RESTART:
                self._step(draft, index, Restart())
            case Kind.FAULT:
                self._strike(draft, self.scenario.faults[index])
            case _:
                assert_never(transition.kind)
        self._acknowledge(draft)
        return draft.finish(), draft.complaint

    def is_at_rest(self, state: State) -> bool:
        """Return whether nothing is under way, and everything is whole."""
        return not any(state.channels) and not any(state.links) and not any(state.away)

    # Possible transitions.

    def _may_act(self, state: State, index: int) -> bool:
        """Return whether a client may take the next action of its script; it must have credit."""
        client, done = self.scenario.clients[index], state.scripts[index]
        if client.awaits and not self.witness.is_confirmed(state.ledger, index, done):
            return False
        node = self.stations[state.stations[self._hosts[index]]].node
        known = node.client_named(client.name) if node is not None else None
        if node is None or known is None:
            return False
        session = node.clients[known].session
        return session is None or session.grants_data or not isinstance(client.actions[done], PublishRequest)

    def _mending(self, state: State) -> Iterator[Transition]:
        """Yield the transitions that repair broken links."""
        for channel, (broker, peer) in enumerate(self.channels):
            if state.links[channel // 2] != WHOLE and self._is_connected(state, broker, peer):
                yield Transition(Kind.NOTICE, channel)
        for link, ends in enumerate(self.links):
            if state.links[link] != WHOLE and all(self._is_alive(state, end) for end in ends):
                yield Transition(Kind.CONNECT, link)
        for index, broker in enumerate(self.brokers):
            if not self._is_alive(state, broker):
                yield Transition(Kind.RESTART, index)

    def _can_strike(self, state: State, fault: Fault) -> bool:
        match fault:
            case CrashOf():
                return self._is_alive(state, fault.broker)
            case CutOf():
                return state.links[self._link(fault.low, fault.high)] == WHOLE
            case ResendOver():
                session = self._session(state, fault.sender, fault.receiver)
                is_whole = state.links[self._link(fault.sender, fault.receiver)] == WHOLE
                return is_whole and session is not None and session.is_up and session.awaits_acknowledgement
            case KillOf():
                index = self.witness.index_of(fault.client)
                return not state.away[index] and self._is_alive(state, self.scenario.clients[index].broker)
            case ImpostorOf():
                both = self._is_alive(state, fault.broker) and self._is_alive(state, fault.neighbour)
                return both and state.links[self._link(fault.broker, fault.neighbour)] == WHOLE
            case GraceOf():
                broker = self.stations[state.stations[self._station_index[fault.broker]]].broker
                recovery = broker.state.recovery if broker is not None else None
                return recovery is not None and not recovery.grace_passed

    def _is_alive(self, state: State, broker: BrokerId) -> bool:
        return self.stations[state.stations[self._station_index[broker]]].broker is not None

    def _is_connected(self, state: State, broker: BrokerId, peer: BrokerId) -> bool:
        session = self._session(state, broker, peer)
        return session is not None and session.status is not Status.DOWN

    def _session(self, state: State | Draft, broker: BrokerId, peer: BrokerId) -> Session | None:
        node = self.stations[state.stations[self._station_index[broker]]].node
        return node.links[peer].session if node is not None else None

    def _link(self, one: BrokerId, other: BrokerId) -> int:
        return self._channel_index[one, other] // 2

    # Execution of transitions.

    def _arrive(self, draft: Draft, channel: int) -> None:
        items = draft.channels[channel]
        draft.channels[channel] = items[1:]
        sender, receiver = self.channels[channel]
        self._step(draft, self._station_index[receiver], Arrive(sender, items[0]))

    def _act(self, draft: Draft, index: int) -> None:
        client = self.scenario.clients[index]
        request = client.actions[draft.scripts[index]]
        draft.scripts[index] += 1
        draft.ledger = self.witness.acted(draft.ledger, index, request)
        step = self._step(draft, self._hosts[index], Ask(client.name, request))
        if isinstance(request, PublishRequest):
            refused = any(
                isinstance(each, Refused) and each.request == MessageKind.PUBLICATION for _, each in step.replies
            )
            if not refused:
                draft.ledger = self.witness.accepted(draft.ledger, draft.scripts, request)

    def _strike(self, draft: Draft, fault: Fault) -> None:
        draft.faults_left -= 1
        match fault:
            case CrashOf():
                self._crash(draft, fault.broker)
            case CutOf():
                self._break(draft, self._link(fault.low, fault.high), CUT)
            case ResendOver():
                self._step(draft, self._station_index[fault.sender], Resend(fault.receiver))
            case KillOf():
                self._kill(draft, self.witness.index_of(fault.client))
            case ImpostorOf():
                self._impersonate(draft, fault)
            case GraceOf():
                self._step(draft, self._station_index[fault.broker], PassGrace())

    def _crash(self, draft: Draft, broker: BrokerId) -> None:
        self._step(draft, self._station_index[broker], Crash())
        for link, ends in enumerate(self.links):
            if broker in ends:
                self._break(draft, link, BROKEN)
        gone = [index for index, client in enumerate(self.scenario.clients) if client.broker == broker]
        for client in gone:
            draft.away[client] = True
        draft.ledger = self.witness.interrupted(draft.ledger, gone)

    def _kill(self, draft: Draft, client: int) -> None:
        """Kill a client."""
        self._step(draft, self._hosts[client], Kill(self.scenario.clients[client].name))
        draft.away[client] = True
        draft.ledger = self.witness.interrupted(draft.ledger, [client])

    def _impersonate(self, draft: Draft, fault: ImpostorOf) -> None:
        """Let another broker connect under a broker's name, and leave; the previous holder notices in its own time."""
        incarnation = self.stations[draft.stations[self._station_index[fault.broker]]].incarnation
        incarnation += 1 if fault.is_newer else -1
        self._break(draft, self._link(fault.broker, fault.neighbour), BROKEN)
        self._step(draft, self._station_index[fault.neighbour], Impersonate(fault.broker, incarnation), fences=False)

    def _break(self, draft: Draft, link: int, how: int) -> None:
        draft.links[link] = how
        draft.channels[2 * link] = draft.channels[2 * link + 1] = ()

    def _connect(self, draft: Draft, link: int) -> None:
        draft.links[link] = WHOLE
        low, high = self.links[link]
        self._step(draft, self._station_index[low], Connect(high))
        self._step(draft, self._station_index[high], Connect(low))

    def _step(self, draft: Draft, station: int, given: Input, *, fences: bool = True) -> Step:
        step = self.stations.step(draft.stations[station], given)
        draft.stations[station] = step.station
        for peer, items in step.written:
            channel = self._channel_index[self.brokers[station], peer]
            if draft.links[channel // 2] == WHOLE:
                draft.channels[channel] += items
        complaint = step.failure
        for client, reply in step.replies:
            draft.ledger, wrong = self.witness.told(draft.ledger, draft.scripts, client, reply)
            complaint = complaint or wrong
        draft.complaint = draft.complaint or complaint
        for fenced in step.fenced if fences else ():
            self._crash(draft, fenced)  # It stops when it learns of a newer broker with its name.
        return step

    def _acknowledge(self, draft: Draft) -> None:
        """Deliver the acknowledgements that commute with everything."""
        for channel in range(len(self.channels)):
            if draft.faults_left and self._is_exposed[channel // 2]:
                continue
            while draft.channels[channel] and self._is_mere_ack(draft, channel) and not draft.complaint:
                self._arrive(draft, channel)

    def _is_mere_ack(self, draft: Draft, channel: int) -> bool:
        item = self.stations.items[draft.channels[channel][0]]
        if not isinstance(item, Ack):
            return False
        sender, receiver = self.channels[channel]
        session = self._session(draft, receiver, sender)
        # With a small window, every acknowledgement may unblock something.
        changes = session is None or (session.classes != CONTROL_ONLY) != (item.grant.window_bytes > 0)
        return session is not None and session.is_up and not changes and not self.scenario.window_bytes

    def _settle(self, draft: Draft) -> None:
        """Deliver everything, in a fixed order."""
        while not draft.complaint and any(draft.channels):
            self._arrive(draft, next(index for index, items in enumerate(draft.channels) if items))


def _touches(fault: Fault, link: tuple[BrokerId, BrokerId]) -> bool:
    """Return whether a fault can break a link, or resend frames over it."""
    match fault:
        case CrashOf():
            return fault.broker in link
        case CutOf():
            return (fault.low, fault.high) == link
        case ResendOver():
            return fault.sender in link and fault.receiver in link
        case KillOf() | GraceOf():
            return False
        case ImpostorOf():
            return fault.broker in link
