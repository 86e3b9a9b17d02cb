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

from octopia.broker import BrokerSettings, Detail, MessageKind, Verdict
from octopia.broker.messages import (
    AdvertiseRequest,
    ClientRequest,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId
from octopia.scenario import (
    AdvertiseItem,
    Item,
    LinkChange,
    PublishItem,
    Scenario,
    SubscribeItem,
    UnadvertiseItem,
    UnsubscribeItem,
)
from octopia.settings import Algorithm
from octopia.simulator.agenda import to_ns
from octopia.simulator.checkers import Ledger
from octopia.simulator.profiles import Profile, find_profile
from octopia.simulator.record import Names, Recorder, Tracer
from octopia.simulator.world import Observer, World
from octopia.trace import TraceSink


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
        brokers = self.world.brokers
        return {
            "deliveries": msgspec.to_builtins(self.recorder.deliveries),
            "hops": msgspec.to_builtins(self.recorder.hops),
            "messages": self.messages(),
            "tables": {str(broker): brokers[broker].table_sizes() for broker in self.world.scot.brokers},
            "civs": self._civs(),
            "refused": msgspec.to_builtins(self.recorder.refused),
            "false_positives": sum(broker.counters.false_positives for broker in brokers.values()),
        }

    def messages(self) -> dict[str, int]:
        """Count the messages between brokers by kind, zeros included."""
        counters = [broker.counters for broker in self.world.brokers.values()]
        return {kind.value: sum(each.sent[kind] for each in counters) for kind in MessageKind}

    def complaints(self) -> list[str]:
        """Return a sentence for everything that was delivered wrongly, or not at all."""
        return self.ledger.complaints(self.recorder, self.world.scot)

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
    sinks: Sequence[TraceSink] = (),
    observers: Sequence[Observer] = (),
) -> Run:
    """Run a scenario to its end; ``check`` tests the invariants of every broker after every step."""
    script = _Script(scenario, seed, profile, detail, sinks, observers)
    script.world.checking = check
    script.play()
    return script.result()


def refuse_what_is_missing(scenario: Scenario) -> None:
    """Raise a UsageError if a scenario asks for what the simulator cannot do."""
    algorithm = scenario.routing.algorithm
    if algorithm not in (Algorithm.STATIC, Algorithm.DYNAMIC):
        raise UsageError(f"expected the algorithm static or dynamic, got {algorithm}, which cannot be simulated yet")
    if scenario.routing.confirmations:
        raise UsageError("expected confirmations = false, got true, which cannot be simulated yet")


class _Script:
    """Plays a scenario in a world."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int | None,
        profile: Profile | None,
        detail: Detail,
        sinks: Sequence[TraceSink],
        observers: Sequence[Observer],
    ):
        refuse_what_is_missing(scenario)
        self._scenario = scenario
        self._profile = profile or find_profile(scenario.profile)
        self._seed = scenario.seed if seed is None else seed
        self._names = Names()
        self._recorder = Recorder(self._names)
        self._ledger = Ledger()
        tracers = [self._tracer(sinks, detail)] if sinks else []
        scot = scenario.overlay.scot
        # The results tell of hops, so brokers do too, even where the trace leaves them out.
        detail = max(detail, Detail.HOPS)
        settings = BrokerSettings(scenario.routing, hop_limit=scot.hop_bound, detail=detail)
        self.world = World(scot, settings, self._profile, self._seed, [self._recorder, *tracers, *observers])
        self._handles: dict[str, tuple[ClientId, int]] = {}
        self._next_handle = 0
        self._next_publication = 0
        self._verdicts: dict[tuple[BrokerId, BrokerId], tuple[Verdict, int | None]] = {}
        self._advertisements: dict[str, tuple[ClientId, int]] = {}

    def play(self) -> None:
        self._shape_links()
        for client in self._scenario.clients:
            self.world.attach(client.name, client.broker)
        for client in self._scenario.clients:
            for item in client.items:
                self._do(item)
                self._settle()
        self._play_events()

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

    def _play_events(self) -> None:
        """Let timed events happen at their times, counted from here, and all others after what came before."""
        start_ns = self.world.agenda.now_ns
        for event in self._scenario.events:
            if event.at_ms is None:
                self._settle()
                self._do(event.item)
                self._settle()
            else:
                self.world.at(start_ns + to_ns(event.at_ms), self._do, event.item)
        self._settle()

    def _settle(self) -> None:
        self.world.run()
        self._ledger.settle()

    def _tracer(self, sinks: Sequence[TraceSink], level: Detail) -> Tracer:
        algorithm = self._scenario.routing.algorithm.value
        run_id = f"{self._scenario.name}-{algorithm}-{self._seed}"
        return Tracer(self._names, run_id, algorithm, self._profile, sinks, level)

    def _shape_links(self) -> None:
        for (source, target), shape in self._scenario.overlay.shapes.items():
            self.world.shape(source, target, shape)
        for change in self._scenario.links:
            self._change_links(change)

    # What happens.

    def _do(self, item: Item) -> None:
        match item:
            case AdvertiseItem():
                handle = self._name(item.client, item.id)
                self._advertisements[item.id] = (ClientId(item.client), handle)
                self._ledger.advertised(item.id, item.client, item.offer)
                self._ask(item.client, AdvertiseRequest(handle, item.offer, item.ordered))
            case SubscribeItem():
                handle = self._name(item.client, item.id)
                self._ledger.subscribed(item.id, item.client, item.interest)
                self._ask(item.client, SubscribeRequest(handle, item.interest))
            case UnadvertiseItem():
                self._ledger.unadvertised(item.id, item.client)
                self._ask(item.client, UnadvertiseRequest(self._handle_of(item.client, item.id)))
            case UnsubscribeItem():
                self._ledger.unsubscribed(item.id, item.client)
                self._ask(item.client, UnsubscribeRequest(self._handle_of(item.client, item.id)))
            case PublishItem():
                self._publish(item)
            case LinkChange():
                self._change_links(item)
            case _:
                assert_never(item)

    def _publish(self, item: PublishItem) -> None:
        now_ns = self.world.agenda.now_ns
        self._publish_once(item)
        for repeat in range(1, item.count):
            self.world.at(now_ns + to_ns(item.every_ms * repeat), self._publish_once, item)

    def _publish_once(self, item: PublishItem) -> None:
        number = self._next_publication
        self._next_publication += 1
        self._ledger.published(number, item.client, item.publication)
        self._ask(item.client, PublishRequest(number, item.publication, self.world.agenda.now_ms))

    def _change_links(self, change: LinkChange) -> None:
        for source, target in change.directions:
            verdict, queue_length = self._verdicts.get((source, target), (Verdict.AUTO, None))
            verdict = verdict if change.verdict is None else change.verdict
            queue_length = queue_length if change.queue_length is None else change.queue_length
            self._verdicts[source, target] = verdict, queue_length
            self.world.force(source, target, verdict, queue_length)
            self.world.shape(source, target, change.shape)

    def _ask(self, client: str, request: ClientRequest) -> None:
        self.world.request(ClientId(client), request)

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
