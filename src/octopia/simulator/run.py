"""Runs of a scenario in virtual time, and their results.

``run_scenario`` builds the world that a scenario describes and plays it there. ``Run.to_json`` is the result that
``octopia simulate --json`` prints: the same file and the same seed give the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from octopia.broker import Detail
from octopia.ids import BrokerId
from octopia.protocol import MessageKind
from octopia.scenario import (
    Scenario,
)
from octopia.settings import Algorithm
from octopia.simulator.checkers import Ledger, journey_complaints
from octopia.simulator.profiles import Profile
from octopia.simulator.record import Names, Recorder
from octopia.simulator.script import Recording, Script
from octopia.simulator.world import Observer, World
from octopia.trace import TraceSink

_CAUSES = (
    "dropped_while_down",
    "lost_by_slow_clients",
    "admitted_by_grace",
    "over_hop_limit",
    "orphaned",
    "duplicate_deliveries_dropped",
)
"""The counters of losses and duplicates, of either kind of broker."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A finished run of a scenario."""

    scenario: Scenario
    profile: Profile
    seed: int
    world: World
    recorder: Recorder
    ledger: Ledger
    names: Names
    advertisements: dict[str, tuple[str, int]]

    def to_json(self) -> dict[str, Any]:
        """Return the result in its documented form."""
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
        """Return the number of messages between brokers by kind, zeros included."""
        counters = self.world.counters()
        return {kind.value: sum(each.sent[kind] for each in counters) for kind in MessageKind}

    def losses(self) -> dict[str, int]:
        """Return the counts of lost and duplicate publications by cause, from brokers and links; zeros left out."""
        totals = {"written_to_crashed_brokers": self._written_to_crashed_brokers()}
        for cause in _CAUSES:
            totals[cause] = sum(getattr(each, cause, 0) for each in (*self.world.counters(), *self.world.nodes))
        return {cause: count for cause, count in totals.items() if count}

    def complaints(self) -> list[str]:
        """Return a sentence for every wrong or missing delivery.

        Losses that the design allows and counts are no errors: publications that a broker dropped for a link that was
        down too long, deliveries that a slow client lost, publications missed by a broker that continued after its
        grace period, and those written to a crashed broker before its neighbours noticed.
        """
        algorithm, counters = self.scenario.routing.algorithm, self.world.counters()
        losses = sum(each.admitted_by_grace + each.dropped_while_down for each in counters)
        losses += sum(node.lost_by_slow_clients for node in self.world.nodes)
        # TID-dynamic does not guarantee every delivery; its losses and duplicates are counted.
        may_miss = bool(losses) or algorithm is Algorithm.TID_DYNAMIC
        journeys = [] if algorithm.is_tid else journey_complaints(self.recorder.hops, self.world.scot)
        deliveries = self.ledger.complaints(
            self.recorder, may_miss=may_miss, crashes_swallow=self._written_to_crashed_brokers() > 0
        )
        return [*deliveries, *journeys]

    def _written_to_crashed_brokers(self) -> int:
        """Return the number of publications that were written to brokers which then lost their state."""
        sessions = [link.session for node in self.world.nodes for link in node.links.values()]
        return sum(session.dropped_unacknowledged for session in sessions if session is not None)

    def _tables(self, broker: BrokerId) -> dict[str, int]:
        """Return the sizes of a broker's tables, 0 for a broker that is down."""
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

    Without ``keep``, for large runs, deliveries and hops are not kept in memory: only the sinks get them, and brokers
    trace no more than ``detail``. The trace ends with totals, so its rows need not be counted. Unless the scenario
    slows clients down, a delivery then takes a client's delay and none of its bandwidth, and all deliveries of a
    publication at a broker are one event.

    With ``sample_ms``, the trace records the length of every nonempty queue at this interval while events happen.
    """
    script = Script(scenario, seed, profile, Recording(detail, keep, sinks, run_id, sample_ms), observers)
    script.world.checking = check
    script.play()
    return Run(
        scenario,
        script.profile,
        script.seed,
        script.world,
        script.recorder,
        script.ledger,
        script.names,
        script.advertisements,
    )
