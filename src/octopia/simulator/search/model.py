"""The whole overlay as a transition system.

A state says where every node stands, what is on its way over every directed channel, which links are broken, how far
every client is in its script, how many faults are left, and what the ledger must remember. It is a tuple of tuples of
small numbers; nodes and items are kept apart, once each. A transition is one of

- the head of a channel arrives (channels are first in, first out, and as slow as they like);
- a client does the next thing of its script, or comes back to a host broker that was restarted;
- an end of a broken connection notices, or the two ends get a new one;
- a fault strikes, a broker is started again, a cut link is healed.

Transitions are listed in a fixed order, so that a path is a list of numbers. A link that is cut loses what is on it,
and what is written on it until it is healed, which gives it a new connection. After a restart every link of the broker
gets its new connection in its own time.

One reduction: an acknowledgement at the head of a channel arrives at once, if it changes no window and no fault that is
left can strike its link. It changes nothing but which frames are kept for a resend that cannot happen any more, so it
commutes with all other transitions.
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
"""How a link is: connected, cut, or without a connection since an end of it crashed."""


class Kind(enum.Enum):
    """What happens in a transition."""

    ARRIVE = "arrive"
    ACT = "act"
    RETURN = "return"
    NOTICE = "notice"
    CONNECT = "connect"
    RESTART = "restart"
    FAULT = "fault"


class Transition(NamedTuple):
    """Something that may happen, and which channel, client, link, broker or fault it is about."""

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
        """Return 16 bytes that stand for this state."""
        plain = (*self[:-1], *self.ledger)
        # Version 2 writes equal values as equal bytes; later ones write whether objects are shared, too.
        return hashlib.blake2b(marshal.dumps(plain, 2), digest_size=16).digest()


class Draft:
    """A state that is being made."""

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
        settings = BrokerSettings(hop_limit=self.scot.hop_bound, queue_capacity=scenario.queue_capacity)
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
        """Return the state in which the search begins: what clients did before has settled."""
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
        """List what may happen next, always in the same order."""
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
        """Return the state after a transition, and what is wrong with it, or an empty text."""
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
        if draft.ledger.stale and not self._is_unnoticed_crash(draft):
            draft.ledger = draft.ledger._replace(stale=())
        return draft.finish(), draft.complaint

    def is_at_rest(self, state: State) -> bool:
        """Tell whether nothing is under way, and everything is whole."""
        return not any(state.channels) and not any(state.links) and not any(state.away)

    # What may happen.

    def _may_act(self, state: State, index: int) -> bool:
        """Return whether a client may take the next action of its script: it keeps to its credit."""
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
        """Yield what may happen because some links are not whole."""
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

    def _is_admitted_by_grace(self, draft: Draft) -> bool:
        """Tell whether some broker takes publications though it has not recovered."""
        running = [broker for number in draft.stations if (broker := self.stations[number].broker) is not None]
        return any(each.state.recovery is not None and each.state.recovery.grace_passed for each in running)

    def _is_unnoticed_crash(self, draft: Draft) -> bool:
        """Tell whether some neighbour still writes to a broker that has crashed."""
        for channel, (broker, peer) in enumerate(self.channels):
            if draft.links[channel // 2] == BROKEN:
                session = self._session(draft, broker, peer)
                if session is not None and session.status is not Status.DOWN:
                    return True
        return False

    # What happens then.

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
            if not refused and not self._is_admitted_by_grace(draft):
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
                draft.ledger = draft.ledger._replace(owed=())

    def _crash(self, draft: Draft, broker: BrokerId) -> None:
        self._step(draft, self._station_index[broker], Crash())
        for link, ends in enumerate(self.links):
            if broker in ends:
                self._break(draft, link, BROKEN)
        gone = [index for index, client in enumerate(self.scenario.clients) if client.broker == broker]
        for client in gone:
            draft.away[client] = True
        draft.ledger = self.witness.crashed(draft.ledger, gone)

    def _kill(self, draft: Draft, client: int) -> None:
        """Let a client die; publications of it that wait for room die with it."""
        self._step(draft, self._hosts[client], Kill(self.scenario.clients[client].name))
        draft.away[client] = True
        draft.ledger = self.witness.crashed(draft.ledger, [client])

    def _impersonate(self, draft: Draft, fault: ImpostorOf) -> None:
        """Let another broker take a connection under a name, and go; whoever held it notices in its own time."""
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
            self._crash(draft, fenced)  # It stops when it is told that a newer broker has its name.
        return step

    def _acknowledge(self, draft: Draft) -> None:
        """Let acknowledgements arrive that commute with everything."""
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
        # With a small window every acknowledgement may let something go.
        changes = session is None or (session.classes != CONTROL_ONLY) != (item.grant.window_bytes > 0)
        return session is not None and session.is_up and not changes and not self.scenario.window_bytes

    def _settle(self, draft: Draft) -> None:
        """Let everything arrive, in some order."""
        while not draft.complaint and any(draft.channels):
            self._arrive(draft, next(index for index, items in enumerate(draft.channels) if items))


def _touches(fault: Fault, link: tuple[BrokerId, BrokerId]) -> bool:
    """Tell whether a fault can break a link, or write over it what was written before."""
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
