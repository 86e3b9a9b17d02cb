"""Running a scenario in virtual time, and what comes out.

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
from octopia.simulator.script import Script, Telling
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
"""The counters of brokers, of either kind, that tell of losses and of duplicates."""


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
    advertisements: dict[str, tuple[str, int]]

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
        totals = {"written_to_crashed_brokers": self._written_to_crashed_brokers()}
        for cause in _CAUSES:
            totals[cause] = sum(getattr(each, cause, 0) for each in (*self.world.counters(), *self.world.nodes))
        return {cause: count for cause, count in totals.items() if count}

    def complaints(self) -> list[str]:
        """Return a sentence for everything that was delivered wrongly, or not at all.

        What the design allows to be lost, and counts, is not held against a run: what a broker dropped for a link that
        was down too long, what a slow client lost, what passed by a broker that went on after its grace period, and
        what was written to a broker that had crashed before its neighbours knew.
        """
        algorithm, counters = self.scenario.routing.algorithm, self.world.counters()
        losses = sum(each.admitted_by_grace + each.dropped_while_down for each in counters)
        losses += sum(node.lost_by_slow_clients for node in self.world.nodes)
        # TID-dynamic promises nobody everything; what it loses and doubles is counted.
        may_miss = bool(losses) or algorithm is Algorithm.TID_DYNAMIC
        journeys = [] if algorithm.is_tid else journey_complaints(self.recorder.hops, self.world.scot)
        deliveries = self.ledger.complaints(
            self.recorder, may_miss=may_miss, crashes_swallow=self._written_to_crashed_brokers() > 0
        )
        return [*deliveries, *journeys]

    def _written_to_crashed_brokers(self) -> int:
        """Count the publications that were written to brokers which then lost their memory."""
        sessions = [link.session for node in self.world.nodes for link in node.links.values()]
        return sum(session.dropped_unacknowledged for session in sessions if session is not None)

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
    script = Script(scenario, seed, profile, Telling(detail, keep, sinks, run_id, sample_ms), observers)
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
