"""The player of a scenario: clients issue their initial requests, one at a time, and then the events happen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import assert_never

from octopia.algorithms import hop_limit_of
from octopia.broker import Broker, BrokerSettings, Delivered, Detail, Fact, Routed, Verdict
from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.link import LinkSettings
from octopia.protocol.messages import (
    AdvertiseRequest,
    ClientReply,
    ClientRequest,
    Confirmed,
    CutOff,
    Gap,
    Lost,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
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
    SlowItem,
    SubscribeItem,
    UnadvertiseItem,
    UnsubscribeItem,
)
from octopia.simulator.agenda import Priority, to_ns
from octopia.simulator.checkers import Ledger
from octopia.simulator.driver import Observer
from octopia.simulator.links import FrameFaults
from octopia.simulator.profiles import Profile, find_profile
from octopia.simulator.record import Names, Recorder, Refusal, Tracer
from octopia.simulator.world import Environment, World
from octopia.trace import TraceSink

_CUT_OFF = "it was too slow and was cut off"

_RETRANSMIT_MS = 200.0
"""The retransmission timeout of simulated links, which can lose single frames; network connections cannot."""


def _environment_of(scenario: Scenario, profile: Profile, seed: int, *, whole: bool) -> Environment:
    """Return the environment of a scenario's brokers: links have sessions if something can fail."""
    wanted = scenario.simulator
    faults = FrameFaults(wanted.drop, wanted.duplicate, wanted.reorder)
    strikes = [event.item for event in scenario.events if isinstance(event.item, FaultItem)]
    has_more = faults != FrameFaults() or wanted.window_bytes is not None or bool(wanted.queue_capacity)
    needs_sessions = has_more or bool(strikes)
    if wanted.links is LinkModel.IDEAL and (needs_sessions or profile.credit_kib):
        raise UsageError(
            'expected links = "session" or "auto" with faults, queue_capacity, window_bytes or a profile with '
            'credit_kib, got "ideal"'
        )
    if not needs_sessions and wanted.links is not LinkModel.SESSION:
        return Environment(profile, seed=seed, client_queue_limit=wanted.client_queue_limit, whole=whole)
    # A broker that crashes for good never exchanges state again, so TID-based routing needs none.
    crashes_only = strikes and all(isinstance(item, CrashItem) for item in strikes)
    if scenario.routing.algorithm.is_tid and (has_more or not crashes_only):
        raise UsageError(
            "expected ideal links or brokers that crash for good under TID-based routing, which has no exchange of "
            "state, got sessions"
        )
    sessions = LinkSettings(wanted.window_bytes or profile.window_bytes, retransmit_ms=_RETRANSMIT_MS)
    return Environment(profile, sessions, faults, seed, wanted.client_queue_limit, whole)


@dataclasses.dataclass(slots=True)
class _Client:
    """The requests of a client, so that it can issue them again when its broker has lost its state."""

    broker: BrokerId
    in_force: dict[str, AdvertiseItem | SubscribeItem] = dataclasses.field(default_factory=dict)
    rate: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Hearing:
    """An observer that records in the ledger what clients are told: confirmations of subscriptions, and losses."""

    ledger: Ledger
    names: Names

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Ignore facts of brokers."""

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Record a confirmation, or a loss."""
        if isinstance(reply, Confirmed):
            self.ledger.confirmed(self.names.issued(client, reply.number), now_ms)
        elif isinstance(reply, Gap | Lost):
            self.ledger.told(client, now_ms)
        elif isinstance(reply, CutOff):
            self.ledger.cut_off(client, now_ms)

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Ignore deliveries."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """The records that a run makes: how detailed, for which sinks, and under which name."""

    detail: Detail
    keep: bool
    sinks: Sequence[TraceSink]
    run_id: str | None
    sample_ms: float


class Script:
    """A scenario that is played in a world."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int | None,
        profile: Profile | None,
        recording: Recording,
        observers: Sequence[Observer],
    ):
        self.scenario = scenario
        self.profile = profile or find_profile(scenario.simulator.profile)
        self.seed = scenario.simulator.seed if seed is None else seed
        self.names = Names()
        self.recorder = Recorder(self.names, recording.keep)
        self.ledger = Ledger()
        self._recording = recording
        self._tracers = [self._tracer()] if recording.sinks else []
        scot = scenario.overlay.scot
        # The results contain hops, so brokers trace them, even where the trace leaves them out.
        detail = max(recording.detail, Detail.HOPS if recording.keep else Detail.DELIVERIES)
        settings = BrokerSettings(
            scenario.routing,
            hop_limit=hop_limit_of(scot, scenario.routing.algorithm),
            queue_capacity=scenario.simulator.queue_capacity,
            detail=detail,
        )
        whole = not recording.keep and self._clients_are_never_slow()
        environment = _environment_of(scenario, self.profile, self.seed, whole=whole)
        listeners: list[Observer] = [self.recorder, _Hearing(self.ledger, self.names)]
        listeners += [*self._tracers, *observers]
        self.world = World(scot, settings, environment, listeners)
        self._clients = {client.name: _Client(client.broker) for client in scenario.clients}
        self._handles: dict[str, tuple[str, int]] = {}
        self._next_handle = 0
        self._next_publication = 0
        self._verdicts: dict[tuple[BrokerId, BrokerId], tuple[Verdict, int | None]] = {}
        self.advertisements: dict[str, tuple[str, int]] = {}

    def play(self) -> None:
        """Play the whole scenario."""
        self._shape_links()
        for name, client in self._clients.items():
            self.world.attach(name, client.broker)
        for spec in self.scenario.clients:
            for item in spec.items:
                self._do(item)
                self._settle()
        self._play_events()
        for tracer in self._tracers:
            tracer.finish(self.world.brokers.values(), self.world.agenda.now_ms)

    def _clients_are_never_slow(self) -> bool:
        """Return whether all clients can be reached at once: their links are alike and cannot fail."""
        changes = (SlowItem, CrashItem, RestartItem)
        return not any(isinstance(event.item, changes) for event in self.scenario.events)

    def _play_events(self) -> None:
        """Play timed events at their times, counted from here, and each other event when the one before has settled."""
        start_ns = settled_ns = self.world.agenda.now_ns
        if self._recording.sample_ms:
            self._sample(None)
        for event in self.scenario.events:
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
        """Record every nonempty queue, and plan the next sample; nothing waits for samples."""
        agenda = self.world.agenda
        for tracer in self._tracers:
            tracer.sample(self.world.brokers.values(), agenda.now_ms)
        next_ns = agenda.now_ns + to_ns(self._recording.sample_ms)
        agenda.enter(next_ns, Priority.TIMER, self._sample, None, background=True)

    def _settle(self) -> None:
        self.world.run()
        self.ledger.settle()

    def _tracer(self) -> Tracer:
        recording, algorithm = self._recording, self.scenario.routing.algorithm.value
        run_id = recording.run_id or f"{self.scenario.name}-{algorithm}-{self.seed}"
        return Tracer(
            self.names, run_id, algorithm, self.profile, recording.sinks, recording.detail, for_audit=not recording.keep
        )

    def _shape_links(self) -> None:
        for (source, target), shape in self.scenario.overlay.shapes.items():
            self.world.links.shape(source, target, shape)
        for change in self.scenario.links:
            self._change_links(change)

    # Events.

    def _do(self, item: Item) -> None:
        match item:
            case AdvertiseItem() | SubscribeItem():
                self._issue(item)
            case UnadvertiseItem():
                self.ledger.unadvertised(item.id, item.client, self.world.agenda.now_ms)
                self._withdraw(item, UnadvertiseRequest(self._handle_of(item.client, item.id)))
            case UnsubscribeItem():
                self.ledger.unsubscribed(item.id, item.client, self.world.agenda.now_ms)
                self._withdraw(item, UnsubscribeRequest(self._handle_of(item.client, item.id)))
            case PublishItem():
                self._publish(item)
            case LinkChange():
                self._change_links(item)
            case SlowItem():
                self._clients[item.client].rate = item.rate
                if self.world.is_attached(item.client):
                    self.world.slow_down(item.client, item.rate)
            case CrashItem() | RestartItem() | CutItem() | HealItem():
                self._strike(item)
            case _:
                assert_never(item)

    def _issue(self, item: AdvertiseItem | SubscribeItem) -> None:
        handle = self._name(item.client, item.id)
        self._clients[item.client].in_force[item.id] = item
        if isinstance(item, AdvertiseItem):
            self.advertisements[item.id] = (item.client, handle)
            self.ledger.advertised(item.id, item.client, item.offer, self.world.agenda.now_ms)
        else:
            self.ledger.subscribed(item.id, item.client, item.interest, self.world.agenda.now_ms)
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
            self.recorder.refused.append(Refusal(None, item.client, reason))
        self._ask(item.client, request)

    def _strike(self, item: FaultItem) -> None:
        match item:
            case CrashItem():
                self.ledger.crashed(item.broker, self._clients_at(item.broker))
                self.world.crash(item.broker)
            case RestartItem():
                self.ledger.restarted(item.broker, self._clients_at(item.broker))
                self.world.restart(item.broker)
                self._force_again(item.broker)
                self._reconnect(item.broker)
            case CutItem():
                self.ledger.cut(tuple(sorted(item.link)))
                self.world.cut(*item.link)
            case HealItem():
                self.ledger.healed(tuple(sorted(item.link)))
                self.world.heal(*item.link)
            case _:
                assert_never(item)

    def _force_again(self, broker: BrokerId) -> None:
        """Apply forced verdicts about links to the new incarnation of a broker."""
        for (source, target), (verdict, queue_length) in self._verdicts.items():
            if source == broker:
                self.world.force(source, target, verdict, queue_length)

    def _clients_at(self, broker: BrokerId) -> list[str]:
        return [name for name, client in self._clients.items() if client.broker == broker]

    def _reconnect(self, broker: BrokerId) -> None:
        """Let the clients of a restarted broker issue their requests again."""
        for name in self._clients_at(broker):
            client = self._clients[name]
            if self.world.is_attached(name):
                continue
            self.world.attach(name, broker)
            if client.rate is not None:
                self.world.slow_down(name, client.rate)
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
        if not self.world.is_attached(item.client):
            self.ledger.failed(number, item.client, item.publication, self.world.agenda.now_ms)
            is_down = self.world.broker(self._clients[item.client].broker) is None
            reason = "its broker is down" if is_down else _CUT_OFF
            self.recorder.refused.append(Refusal(number, item.client, reason))
            return
        self.ledger.published(number, item.client, item.publication, self.world.agenda.now_ms)
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
        """Send a request to the client's broker; while it is down, the request is issued at the reconnect."""
        if self.world.is_attached(client):
            self.world.request(client, request)
        elif self.world.broker(self._clients[client].broker) is not None:
            self.recorder.refused.append(Refusal(None, client, _CUT_OFF))

    def _name(self, client: str, name: str) -> int:
        """Assign a handle to a client's new advertisement or subscription."""
        handle = self._next_handle
        self._next_handle += 1
        self._handles[name] = (client, handle)
        self.names.name(client, handle, name)
        return handle

    def _handle_of(self, client: str, name: str) -> int:
        """Return the handle of a client's request; if it never made it, a new one, which the broker will refuse."""
        owner, handle = self._handles.get(name, (None, -1))
        if owner == client:
            return handle
        unknown = self._next_handle
        self._next_handle += 1
        self.names.name(client, unknown, name)
        return unknown
