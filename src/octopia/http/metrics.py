"""Metrics in the format of Prometheus, computed from a snapshot on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from octopia.http.snapshot import Snapshot
from octopia.runtime.latency import BUCKETS, PER_DECADE, upper_ms

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format that ``generate_latest`` writes as long as it escapes names."""

_BROKER_COUNTERS = {
    "published": "Publications of local clients that a broker has accepted.",
    "delivered": "Deliveries to local clients, one per subscription.",
}
_LINK_COUNTERS = {
    "sent": ("octopia_link_sent", "Publications sent over a link.", 1.0),
    "rerouted": ("octopia_link_rerouted", "Publications sent over a link because another link was congested.", 1.0),
    "dropped": ("octopia_link_dropped", "Publications lost on a link.", 1.0),
    "congested_ms": ("octopia_link_congested_seconds", "Time for which a link was congested.", 0.001),
}
_LINK_GAUGES = {
    "queue": "Publications queued for a link.",
    "up": "1 if a link is up.",
}


def exposition(snapshot: Snapshot, brokers: Sequence[str]) -> bytes:
    """Return the metrics of all brokers."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot, brokers))
    return generate_latest(registry)


class _Collector:
    """The metrics of one snapshot."""

    def __init__(self, snapshot: Snapshot, brokers: Sequence[str]):
        self._snapshot = snapshot
        self._brokers = brokers

    def collect(self) -> Iterator[Metric]:
        yield from self._of_brokers()
        yield from self._of_links()
        yield self._losses()
        yield self._delays()

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def _of_brokers(self) -> Iterator[Metric]:
        running = GaugeMetricFamily("octopia_broker_running", "1 if a broker is running.", labels=["broker"])
        clients = GaugeMetricFamily("octopia_broker_clients", "Clients of a broker.", labels=["broker"])
        for broker in self._brokers:
            running.add_metric([broker], broker in self._snapshot.reports)
        for broker, report in self._snapshot.reports.items():
            clients.add_metric([broker], report["clients"])
        yield running
        yield clients
        for name, text in _BROKER_COUNTERS.items():
            counter = CounterMetricFamily(f"octopia_broker_{name}", text, labels=["broker"])
            for broker, report in self._snapshot.reports.items():
                counter.add_metric([broker], report[name])
            yield counter

    def _of_links(self) -> Iterator[Metric]:
        links = self._snapshot.links
        for field, (name, text, unit) in _LINK_COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=["broker", "to"])
            for ends, link in links.items():
                counter.add_metric(list(ends), link[field] * unit)
            yield counter
        for field, text in _LINK_GAUGES.items():
            gauge = GaugeMetricFamily(f"octopia_link_{field}", text, labels=["broker", "to"])
            for ends, link in links.items():
                gauge.add_metric(list(ends), link[field])
            yield gauge

    def _losses(self) -> Metric:
        text = "Publications or deliveries that are known to be lost."
        counter = CounterMetricFamily("octopia_lost", text, labels=["broker", "cause"])
        for broker, report in self._snapshot.reports.items():
            for cause, loss in report["losses"].items():
                counter.add_metric([broker, cause], loss["publications"])
        return counter

    def _delays(self) -> Metric:
        reports = [report["delays"] for report in self._snapshot.reports.values()]
        buckets, seen = list[tuple[str, float]](), 0
        for bucket in range(BUCKETS - 1):
            seen += sum(_count(delays, bucket) for delays in reports)
            if bucket % (PER_DECADE // 2) == 0:  # Two buckets per decade are enough for dashboards.
                buckets.append((f"{upper_ms(bucket) / 1000.0:.6g}", seen))
        buckets.append(("+Inf", seen + sum(_count(delays, BUCKETS - 1) for delays in reports)))
        text = "Delays of sampled deliveries, from the publisher to the write to the subscriber."
        total_s = sum(delays["sum_ms"] for delays in reports) / 1000.0
        return HistogramMetricFamily("octopia_delivery_delay_seconds", text, buckets=buckets, sum_value=total_s)


def _count(delays: dict[str, Any], bucket: int) -> int:
    counts: list[int] = delays["counts"]
    return counts[bucket] if bucket < len(counts) else 0
