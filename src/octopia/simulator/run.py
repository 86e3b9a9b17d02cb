"""Running a scenario in virtual time, and what comes out.

``run_scenario`` builds the world that a scenario describes, lets its clients issue what they begin with, one thing at a
time, and then its events. ``Run.to_json`` is the result that ``octopia simulate --json`` prints: the same file and the
same seed give the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from octopia.broker import Broker, BrokerSettings, Detail, Fact, MessageKind, Routed, Verdict
from octopia.broker.interface import Delivered
from octopia.broker.messages import (
    AdvertiseRequest,
    ClientReply,
    ClientRequest,
    Confirmed,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId
from octopia.link import LinkSettings
from octopia.scenario import (
    AdvertiseItem,
    CrashItem,
    CutItem,
    FaultItem,
    HealItem,
    Item,
    LinkChange,
    LinkModel,
    PublishItem,
    RestartItem,
    Scenario,
    SimulatorSettings,
    SlowItem,
    SubscribeItem,
    UnadvertiseItem,
    UnsubscribeItem,
)
from octopia.settings import Algorithm
from octopia.simulator.agenda import Priority, to_ns
from octopia.simulator.checkers import Ledger, journey_complaints
from octopia.simulator.profiles import Profile, find_profile
from octopia.simulator.record import Names, Recorder, Refusal, Tracer
from octopia.simulator.sessions import FrameFaults, SessionLinks
from octopia.simulator.world import Environment, Observer, World
from octopia.trace import TraceSink

_CUT_OFF = "it was cut off, since it was too slow"

_CAUSES = (
    "dropped_while_down",
    "lost_by_slow_clients",
    "admitted_by_grace",
    "over_hop_limit",
    "orphaned",
    "duplicate_deliveries_dropped",
)
"""The counters of brokers, of either kind, that tell of losses and of duplicates."""

RETRANSMIT_MS = 200.0
"""Simulated links lose single frames; connections of the network do not."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A scenario that was run."""

    scenario: Scenario
    profile: Profile
    seed: int
    world: World
    recorder: Recorder
    ledger: Ledger
    names: Names
    advertisements: dict[str, tuple[ClientId, int]]

    def to_json(self) -> dict[str, Any]:
        """Return the result in the form that is promised to the outside."""
        return {
            "deliveries": msgspec.to_builtins(self.recorder.deliveries),
            "hops": msgspec.to_builtins(self.recorder.hops),
            "messages": self.messages(),
            "tables": {str(broker): self._tables(broker) for broker in self.world.scot.brokers},
            "civs": self._civs(),
            "refused": msgspec.to_builtins(self.recorder.refused),
            "false_positives": sum(each.false_positives for each in self.world.counters()),
        } | ({"losses": losses} if (losses := self.losses()) else {})

    def messages(self) -> dict[str, int]:
        """Count the messages between brokers by kind, zeros included."""
        counters = self.world.counters()
        return {kind.value: sum(each.sent[kind] for each in counters) for kind in MessageKind}

    def losses(self) -> dict[str, int]:
        """Count what was lost or doubled on the way, by cause, as brokers and links have counted it; zeros left out."""
        links = self.world.links
        written_in_vain = links.dropped_unacknowledged if isinstance(links, SessionLinks) else 0
        totals = {"written_to_crashed_brokers": written_in_vain}
        for each in self.world.counters():
            for cause in _CAUSES:
                totals[cause] = totals.get(cause, 0) + getattr(each, cause, 0)
        return {cause: count for cause, count in totals.items() if count}

    def complaints(self) -> list[str]:
        """Return a sentence for everything that was delivered wrongly, or not at all.

        What the design allows to be lost, and counts, is not held against a run: what a broker dropped for a link that
        was down too long, what a slow client lost, what passed by a broker that went on after its grace period, and
        what was written to a broker that had crashed before its neighbours knew.
        """
        algorithm, counters = self.scenario.routing.algorithm, self.world.counters()
        losses = sum(each.admitted_by_grace + each.dropped_while_down + each.lost_by_slow_clients for each in counters)
        # TID-dynamic promises nobody everything; what it loses and doubles is counted.
        may_miss = bool(losses) or algorithm is Algorithm.TID_DYNAMIC
        links = self.world.links
        written_in_vain = isinstance(links, SessionLinks) and links.dropped_unacknowledged > 0
        journeys = [] if algorithm.is_tid else journey_complaints(self.recorder.hops, self.world.scot)
        deliveries = self.ledger.complaints(self.recorder, may_miss=may_miss, crashes_swallow=written_in_vain)
        return [*deliveries, *journeys]

    def _tables(self, broker: BrokerId) -> dict[str, int]:
        """Count the entries of a broker's tables; a broker that is down has none."""
        alive = self.world.broker(broker)
        return alive.table_sizes() if alive else {"clt": 0, "prt": 0, "srt": 0}

    def _civs(self) -> dict[str, dict[str, str]]:
        civs = {}
        for name, (client, handle) in self.advertisements.items():
            found = self.world.civs(client, handle)
            if found is not None:
                stored, targets = found
                civs[name] = {"stored": str(stored), "targets": str(targets)}
        return civs


def run_scenario(
    scenario: Scenario,
    *,
    seed: int | None = None,
    profile: Profile | None = None,
    detail: Detail = Detail.HOPS,
    check: bool = False,
    keep: bool = True,
    sinks: Sequence[TraceSink] = (),
    observers: Sequence[Observer] = (),
    run_id: str | None = None,
    sample_ms: float = 0.0,
) -> Run:
    """Run a scenario to its end; ``check`` tests the invariants of every broker after every step.

    Large runs ``keep`` no deliveries and hops in memory: what the sinks got is all that there is then, and brokers tell
    of no more than ``detail`` asks for. The trace ends with totals, so that nothing of it needs counting. Unless the
    scenario slows clients down, a delivery then takes a client's delay and none of its bandwidth, and all deliveries of
    a publication at a broker are one event.

    With ``sample_ms``, the trace tells every so many milliseconds of the events which queues hold something.
    """
    telling = _Telling(detail, keep, sinks, run_id, sample_ms)
    script = _Script(scenario, seed, profile, telling, observers)
    script.world.checking = check
    script.play()
    return script.result()


def hop_limit_of(scenario: Scenario) -> int:
    """Return the hops that no publication exceeds by right: the overlay's bound, or the longest tree of a flood."""
    scot = scenario.overlay.scot
    return len(scot.brokers) if scenario.routing.algorithm.is_tid else scot.hop_bound


def environment_of(scenario: Scenario, profile: Profile, seed: int) -> Environment:
    """Return what surrounds the brokers of a scenario: links with sessions where something can fail."""
    wanted = scenario.simulator
    faults = FrameFaults(wanted.drop, wanted.duplicate, wanted.reorder)
    can_fail = faults != FrameFaults() or any(isinstance(event.item, FaultItem) for event in scenario.events)
    has_window = wanted.window_bytes != SimulatorSettings().window_bytes
    needs_sessions = can_fail or has_window or bool(wanted.queue_capacity)
    if wanted.links is LinkModel.IDEAL and needs_sessions:
        raise UsageError(
            'expected links = "session" or "auto" with faults, queue_capacity or window_bytes, got "ideal"'
        )
    if not needs_sessions and wanted.links is not LinkModel.SESSION:
        return Environment(profile, seed=seed)
    if scenario.routing.algorithm.is_tid:
        raise UsageError("expected ideal links under TID-based routing, which has no exchange of state, got sessions")
    sessions = LinkSettings(wanted.window_bytes, retransmit_ms=RETRANSMIT_MS)
    return Environment(profile, sessions, faults, seed)


@dataclasses.dataclass(slots=True)
class _Client:
    """What a client remembers, so that it can start again where its broker lost its memory."""

    broker: BrokerId
    in_force: dict[str, AdvertiseItem | SubscribeItem] = dataclasses.field(default_factory=dict)
    rate: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Confirmations:
    """Notes in the ledger when clients learn that their subscriptions are in force."""

    ledger: Ledger
    names: Names

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Ignore what happens at brokers."""

    def on_reply(self, client: ClientId, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Note a confirmation."""
        if isinstance(reply, Confirmed):
            self.ledger.confirmed(self.names.issued(client, reply.number), now_ms)

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Ignore deliveries."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Telling:
    """What a run tells, to whom, and under which name."""

    detail: Detail
    keep: bool
    sinks: Sequence[TraceSink]
    run_id: str | None
    sample_ms: float


class _Script:
    """Plays a scenario in a world."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int | None,
        profile: Profile | None,
        telling: _Telling,
        observers: Sequence[Observer],
    ):
        self._scenario = scenario
        self._profile = profile or find_profile(scenario.simulator.profile)
        self._seed = scenario.simulator.seed if seed is None else seed
        self._names = Names()
        self._recorder = Recorder(self._names, telling.keep)
        self._ledger = Ledger()
        self._telling = telling
        self._tracers = [self._tracer()] if telling.sinks else []
        scot = scenario.overlay.scot
        # The results tell of hops, so brokers do too, even where the trace leaves them out.
        detail = max(telling.detail, Detail.HOPS if telling.keep else Detail.DELIVERIES)
        settings = BrokerSettings(
            scenario.routing,
            hop_limit=hop_limit_of(scenario),
            queue_capacity=scenario.simulator.queue_capacity,
            client_queue_limit=scenario.simulator.client_queue_limit,
            delivers_together=not telling.keep and self._clients_are_never_slow(),
            detail=detail,
        )
        environment = environment_of(scenario, self._profile, self._seed)
        listeners: list[Observer] = [self._recorder, _Confirmations(self._ledger, self._names)]
        listeners += [*self._tracers, *observers]
        self.world = World(scot, settings, environment, listeners)
        self._clients = {client.name: _Client(client.broker) for client in scenario.clients}
        self._handles: dict[str, tuple[ClientId, int]] = {}
        self._next_handle = 0
        self._next_publication = 0
        self._verdicts: dict[tuple[BrokerId, BrokerId], tuple[Verdict, int | None]] = {}
        self._advertisements: dict[str, tuple[ClientId, int]] = {}

    def play(self) -> None:
        self._shape_links()
        for name, client in self._clients.items():
            self.world.attach(name, client.broker)
        for spec in self._scenario.clients:
            for item in spec.items:
                self._do(item)
                self._settle()
        self._play_events()
        for tracer in self._tracers:
            tracer.finish(self.world.brokers.values(), self.world.agenda.now_ms)

    def result(self) -> Run:
        return Run(
            self._scenario,
            self._profile,
            self._seed,
            self.world,
            self._recorder,
            self._ledger,
            self._names,
            self._advertisements,
        )

    def _clients_are_never_slow(self) -> bool:
        """Whether all clients can be reached at once: nothing makes their links differ, or fail."""
        changes = (SlowItem, CrashItem, RestartItem)
        return not any(isinstance(event.item, changes) for event in self._scenario.events)

    def _play_events(self) -> None:
        """Let timed events happen at their times, counted from here, and all others after what came before."""
        start_ns = settled_ns = self.world.agenda.now_ns
        if self._telling.sample_ms:
            self._sample(None)
        for event in self._scenario.events:
            if event.at_ms is not None:
                self.world.at(start_ns + to_ns(event.at_ms), self._do, event.item)
            elif event.after_ms is not None:
                self.world.at(settled_ns + to_ns(event.after_ms), self._do, event.item)
            else:
                self._settle()
                self._do(event.item)
                self._settle()
                settled_ns = self.world.agenda.now_ns
        self._settle()

    def _sample(self, _: None) -> None:
        """Let the trace tell which queues hold something, now and again; nothing waits for that."""
        agenda = self.world.agenda
        for tracer in self._tracers:
            tracer.sample(self.world.brokers.values(), agenda.now_ms)
        next_ns = agenda.now_ns + to_ns(self._telling.sample_ms)
        agenda.enter(next_ns, Priority.TIMER, self._sample, None, background=True)

    def _settle(self) -> None:
        self.world.run()
        self._ledger.settle()

    def _tracer(self) -> Tracer:
        telling, algorithm = self._telling, self._scenario.routing.algorithm.value
        run_id = telling.run_id or f"{self._scenario.name}-{algorithm}-{self._seed}"
        return Tracer(
            self._names, run_id, algorithm, self._profile, telling.sinks, telling.detail, for_audit=not telling.keep
        )

    def _shape_links(self) -> None:
        for (source, target), shape in self._scenario.overlay.shapes.items():
            self.world.links.shape(source, target, shape)
        for change in self._scenario.links:
            self._change_links(change)

    # What happens.

    def _do(self, item: Item) -> None:
        match item:
            case AdvertiseItem() | SubscribeItem():
                self._issue(item)
            case UnadvertiseItem():
                self._ledger.unadvertised(item.id, item.client, self.world.agenda.now_ms)
                self._withdraw(item, UnadvertiseRequest(self._handle_of(item.client, item.id)))
            case UnsubscribeItem():
                self._ledger.unsubscribed(item.id, item.client, self.world.agenda.now_ms)
                self._withdraw(item, UnsubscribeRequest(self._handle_of(item.client, item.id)))
            case PublishItem():
                self._publish(item)
            case LinkChange():
                self._change_links(item)
            case SlowItem():
                self._clients[item.client].rate = item.rate
                if self.world.is_attached(ClientId(item.client)):
                    self.world.slow_down(ClientId(item.client), item.rate)
            case CrashItem() | RestartItem() | CutItem() | HealItem():
                self._strike(item)
            case _:
                assert_never(item)

    def _issue(self, item: AdvertiseItem | SubscribeItem) -> None:
        handle = self._name(item.client, item.id)
        self._clients[item.client].in_force[item.id] = item
        if isinstance(item, AdvertiseItem):
            self._advertisements[item.id] = (ClientId(item.client), handle)
            self._ledger.advertised(item.id, item.client, item.offer, self.world.agenda.now_ms)
        else:
            self._ledger.subscribed(item.id, item.client, item.interest, self.world.agenda.now_ms)
        self._ask_for(item)

    def _ask_for(self, item: AdvertiseItem | SubscribeItem) -> None:
        handle = self._handle_of(item.client, item.id)
        if isinstance(item, AdvertiseItem):
            self._ask(item.client, AdvertiseRequest(handle, item.offer, item.ordered))
        else:
            self._ask(item.client, SubscribeRequest(handle, item.interest))

    def _withdraw(self, item: UnadvertiseItem | UnsubscribeItem, request: ClientRequest) -> None:
        client = self._clients[item.client]
        is_offer = isinstance(item, UnadvertiseItem)
        if isinstance(client.in_force.get(item.id), AdvertiseItem if is_offer else SubscribeItem):
            del client.in_force[item.id]
        elif self.world.broker(client.broker) is None:
            kind = "advertisement" if is_offer else "subscription"
            reason = f"un{kind} of {item.id}: this client has no such {kind}"
            self._recorder.refused.append(Refusal(None, item.client, reason))
        self._ask(item.client, request)

    def _strike(self, item: FaultItem) -> None:
        match item:
            case CrashItem():
                self._ledger.crashed(item.broker, self._clients_at(item.broker))
                self.world.crash(item.broker)
            case RestartItem():
                self._ledger.restarted(item.broker, self._clients_at(item.broker))
                self.world.restart(item.broker)
                self._force_again(item.broker)
                self._reconnect(item.broker)
            case CutItem():
                self._ledger.cut(tuple(sorted(item.link)))
                self.world.cut(*item.link)
            case HealItem():
                self._ledger.healed(tuple(sorted(item.link)))
                self.world.heal(*item.link)
            case _:
                assert_never(item)

    def _force_again(self, broker: BrokerId) -> None:
        """Let what was decided by hand about links hold for the new incarnation of a broker, too."""
        for (source, target), (verdict, queue_length) in self._verdicts.items():
            if source == broker:
                self.world.force(source, target, verdict, queue_length)

    def _clients_at(self, broker: BrokerId) -> list[str]:
        return [name for name, client in self._clients.items() if client.broker == broker]

    def _reconnect(self, broker: BrokerId) -> None:
        """Let the clients of a restarted broker issue again what they had issued."""
        for name in self._clients_at(broker):
            client = self._clients[name]
            if self.world.is_attached(ClientId(name)):
                continue
            self.world.attach(name, broker)
            if client.rate is not None:
                self.world.slow_down(ClientId(name), client.rate)
            for item in client.in_force.values():
                self._ask_for(item)

    def _publish(self, item: PublishItem) -> None:
        now_ns = self.world.agenda.now_ns
        self._publish_once(item)
        for repeat in range(1, item.count):
            self.world.at(now_ns + to_ns(item.every_ms * repeat), self._publish_once, item)

    def _publish_once(self, item: PublishItem) -> None:
        number = self._next_publication
        self._next_publication += 1
        if not self.world.is_attached(ClientId(item.client)):
            self._ledger.failed(number, item.client, item.publication, self.world.agenda.now_ms)
            is_down = self.world.broker(self._clients[item.client].broker) is None
            reason = "its broker is down" if is_down else _CUT_OFF
            self._recorder.refused.append(Refusal(number, item.client, reason))
            return
        self._ledger.published(number, item.client, item.publication, self.world.agenda.now_ms)
        self._ask(item.client, PublishRequest(number, item.publication, self.world.agenda.now_ms))

    def _change_links(self, change: LinkChange) -> None:
        for source, target in change.directions:
            verdict, queue_length = self._verdicts.get((source, target), (Verdict.AUTO, None))
            verdict = verdict if change.verdict is None else change.verdict
            queue_length = queue_length if change.queue_length is None else change.queue_length
            self._verdicts[source, target] = verdict, queue_length
            self.world.force(source, target, verdict, queue_length)
            self.world.links.shape(source, target, change.shape)

    def _ask(self, client: str, request: ClientRequest) -> None:
        """Ask the client's broker; while it is down, the client remembers, and asks when it is there again."""
        if self.world.is_attached(ClientId(client)):
            self.world.request(ClientId(client), request)
        elif self.world.broker(self._clients[client].broker) is not None:
            self._recorder.refused.append(Refusal(None, client, _CUT_OFF))

    def _name(self, client: str, name: str) -> int:
        """Give a client's new advertisement or subscription a handle."""
        handle = self._next_handle
        self._next_handle += 1
        self._handles[name] = (ClientId(client), handle)
        self._names.name(ClientId(client), handle, name)
        return handle

    def _handle_of(self, client: str, name: str) -> int:
        """Return the handle of what a client issued; one that nobody knows if it never did: the broker will say so."""
        owner, handle = self._handles.get(name, (None, -1))
        if owner == ClientId(client):
            return handle
        unknown = self._next_handle
        self._next_handle += 1
        self._names.name(ClientId(client), unknown, name)
        return unknown
