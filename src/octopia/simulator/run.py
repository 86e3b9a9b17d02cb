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
from octopia.protocol import Cause, MessageKind
from octopia.scenario import (
    Scenario,
)
from octopia.settings import Algorithm
from octopia.simulator.checkers import Ledger, journey_complaints
from octopia.simulator.driver import Observer
from octopia.simulator.profiles import Profile
from octopia.simulator.record import Names, Recorder
from octopia.simulator.script import Recording, Script
from octopia.simulator.world import World
from octopia.trace import TraceSink

_KEYS = {
    Cause.LINK_DOWN: "dropped_while_down",
    Cause.SLOW_CLIENT: "lost_by_slow_clients",
    Cause.UNACKNOWLEDGED: "written_to_crashed_brokers",
    Cause.HOP_LIMIT: "over_hop_limit",
}
"""The names of counted losses in a result; other causes keep their own."""

_ONLY_IF_ANY = (MessageKind.GAP, MessageKind.STATUS)
"""The kinds of message that are counted only if there are any: the paper does not have them."""

_TID_COUNTERS = ("orphaned", "duplicate_deliveries_dropped")
"""The counters of losses and duplicates that only TID brokers have."""


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
            "hops": self._hops(),
            "messages": self.messages(),
            "tables": {str(broker): self._tables(broker) for broker in self.world.scot.brokers},
            "civs": self._civs(),
            "refused": msgspec.to_builtins(self.recorder.refused),
            "false_positives": sum(each.false_positives for each in self.world.counters()),
        } | {
            key: found
            for key, found in (("losses", self.losses()), ("gaps", msgspec.to_builtins(self.recorder.gaps)))
            if found
        }

    def messages(self) -> dict[str, int]:
        """Return the number of messages between brokers by kind; some kinds only if there are any."""
        counters = self.world.counters()
        totals = {kind: sum(each.sent[kind] for each in counters) for kind in MessageKind}
        return {kind.value: count for kind, count in totals.items() if count or kind not in _ONLY_IF_ANY}

    def losses(self) -> dict[str, int]:
        """Return the counts of lost and duplicate publications by cause, from brokers and links; zeros left out."""
        counters = self.world.counters()
        totals = {_KEYS.get(cause, str(cause)): sum(each.lost[cause] for each in counters) for cause in Cause}
        totals["admitted_by_grace"] = sum(each.occasions[Cause.GRACE] for each in counters)
        for name in _TID_COUNTERS:
            totals[name] = sum(getattr(each, name, 0) for each in counters)
        return {name: count for name, count in totals.items() if count}

    def complaints(self) -> list[str]:
        """Return a sentence for every wrong delivery, and for every missing one that its subscriber was not told of."""
        algorithm = self.scenario.routing.algorithm
        # TID-dynamic does not guarantee every delivery; its losses and duplicates are counted.
        deliveries = self.ledger.complaints(self.recorder, may_miss=algorithm is Algorithm.TID_DYNAMIC)
        return [*deliveries, *self._journey_complaints()]

    def _journey_complaints(self) -> list[str]:
        algorithm = self.scenario.routing.algorithm
        if algorithm.is_tid:
            return []
        if algorithm is Algorithm.ADAPTIVE:
            # Copies relay over brokers, and parts of a cluster are entered at several places.
            over = sum(each.beyond_hop_bound for each in self.world.counters())
            return [f"{over} copies made more hops than adaptive routing needs"] if over else []
        return list(journey_complaints(self.recorder.hops, self.world.scot))

    def _hops(self) -> list[dict[str, Any]]:
        """Return all hops; only those of adaptive routing say what they carry over tree edges."""
        hops: list[dict[str, Any]] = msgspec.to_builtins(self.recorder.hops)
        if self.scenario.routing.algorithm is not Algorithm.ADAPTIVE:
            for hop in hops:
                del hop["carries"]
        return hops

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
    script.world.driver.checking = check
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
