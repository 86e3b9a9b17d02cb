"""A made-up outcome of the demo, for what shows it."""

from __future__ import annotations

import dataclasses

import numpy

from octopia.experiments.audits import AuditRow
from octopia.experiments.delays import Delays, delays_of
from octopia.experiments.demo.outcome import Outcome, Side
from octopia.experiments.demo.plan import DEMO
from octopia.experiments.missing import Missing
from octopia.experiments.network_runs import CpuUse, NetworkRun
from octopia.ids import BrokerId
from octopia.settings import Algorithm

CALM = CpuUse(2, 0.5, 0.25, 0.3, 0.4, 0.05, 0.0)
BUSY = dataclasses.replace(CALM, waited_max=0.45, busy_share=0.5)
AUDIT = AuditRow("static", 1540, missing=100, unwanted=0, duplicate=0)
"""Of the missing deliveries, 40 are for clients of the dead broker, and 60 are cut off."""
FAULTY = AuditRow("static", 1544, missing=101, unwanted=2, duplicate=3)


def delays(longest_ms: float) -> Delays:
    times_ms = numpy.arange(0.0, 20_000.0, 20.0)
    return delays_of(times_ms, numpy.linspace(5.0, longest_ms, len(times_ms)))


def side(
    algorithm: Algorithm, longest_ms: float, missing: Missing, audit: AuditRow = AUDIT, cpu: CpuUse | None = CALM
) -> Side:
    messages = {"advertisement": 63, "subscription": 400, "publication": 20_000, "sync": 0}
    run = NetworkRun(algorithm.value, algorithm, 3480, 1000, messages, 20.0, cpu, unsent=7, killed_ms=15_000.0)
    later = delays_of(numpy.full(600 - missing.cut_off, 16_000.0), numpy.full(600 - missing.cut_off, 5.0))
    return Side(run, delays(longest_ms), later, audit, missing)


def outcome(audit: AuditRow = AUDIT, cpu: CpuUse | None = CALM, lost_adaptively: int = 0) -> Outcome:
    host = BrokerId("b", 3)
    links = ((host, BrokerId("a", 3)), (host, BrokerId("b", 0)))
    unexplained = audit.missing - AUDIT.missing
    adaptive = AuditRow("adaptive", 1600 - lost_adaptively, 40 + lost_adaptively, 0, 0)
    sides = (
        side(Algorithm.STATIC, 18_000.0, Missing(40, 60, unexplained), audit, cpu),
        side(Algorithm.DYNAMIC, 15_000.0, Missing(40, 50), AuditRow("dynamic", 1550, 90, 0, 0)),
        side(Algorithm.ADAPTIVE, 250.0, Missing(40, lost_adaptively), adaptive),
    )
    return Outcome(DEMO, host, links, BrokerId("b", 1), 1234, sides, (("workload", 12.25), ("audit", 3.0)))
