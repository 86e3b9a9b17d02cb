"""A made-up outcome of the demo, for what shows it."""

from __future__ import annotations

import dataclasses

import numpy

from octopia.experiments.audits import AuditRow
from octopia.experiments.demo.delays import Delays, delays_of
from octopia.experiments.demo.outcome import Outcome, Side
from octopia.experiments.demo.plan import DEMO
from octopia.experiments.network_runs import CpuUse, NetworkRun
from octopia.experiments.slow_links import slow_links
from octopia.ids import BrokerId
from octopia.settings import Algorithm

CALM = CpuUse(2, 0.5, 0.25, 0.3, 0.4, 0.05, 0.0)
BUSY = dataclasses.replace(CALM, busy_share=0.5)
CLEAN = AuditRow("static", 1000, missing=0, unwanted=0, duplicate=0)
FAULTY = AuditRow("static", 1004, missing=1, unwanted=2, duplicate=3)


def delays(longest_ms: float) -> Delays:
    times_ms = numpy.arange(0.0, 20_000.0, 20.0)
    return delays_of(times_ms, numpy.linspace(5.0, longest_ms, len(times_ms)))


def side(algorithm: Algorithm, longest_ms: float, audit: AuditRow = CLEAN, cpu: CpuUse | None = CALM) -> Side:
    messages = {"advertisement": 63, "subscription": 400, "publication": 20_000, "sync": 0}
    return Side(NetworkRun(algorithm.value, algorithm, 3480, 1000, messages, 20.0, cpu), delays(longest_ms), audit)


def outcome(audit: AuditRow = CLEAN, cpu: CpuUse | None = CALM) -> Outcome:
    host = BrokerId("b", 3)
    links = slow_links(DEMO.workload.scot(), host)
    sides = (side(Algorithm.STATIC, 18_000.0, audit, cpu), side(Algorithm.DYNAMIC, 250.0))
    return Outcome(DEMO, host, links, 1234, sides, (("workload", 12.25), ("audit", 3.0)))
