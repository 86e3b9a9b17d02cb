"""Measure bursts under every routing algorithm, in virtual time on the overlay S_e.

Every link carries one copy at a time and takes 3 ms for it. In a burst, one publisher publishes faster than its links
can carry, while others publish at a low rate. Every publication must arrive exactly once at every subscriber, or the
benchmark fails. ``slow_links`` measures slow links.

The fluid bound of a burst is the best that any routing could do: all links of the host broker share the load evenly, as
do all links of each subscriber's broker and all tree edges of their regions, and nothing else is on its way.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
from collections.abc import Sequence
from typing import Any

from octopia.content import Publication, parse_filter
from octopia.ids import BrokerId
from octopia.overlay import overlay_from_text
from octopia.scenario import AdvertiseItem, ClientSpec, Event, Item, LinkChange, PublishItem, Scenario, SubscribeItem
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.profiles import Profile
from octopia.simulator.run import Run, run_scenario
from tables import print_rows

COPY_MS = 3.0
ONE_SERVER = Profile(
    "one server per link", "a link carries one copy at a time", link_delay_ms=0.1, send_us=1000 * COPY_MS
)
ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.TID_STATIC, Algorithm.ADAPTIVE)


@dataclasses.dataclass(frozen=True, slots=True)
class Burst:
    """A burst at a host broker: its length and rate, and the rate of all other publications together."""

    host: str
    seed: int
    publications: int = 5_000
    per_second: float = 5_000 / 3
    background_per_second: float = 200.0
    subscribers: int = 10

    @property
    def lasts_s(self) -> float:
        """The length of the burst."""
        return self.publications / self.per_second


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """The results of one run: delays of the burst in seconds, when its last delivery came, and messages by kind."""

    mean_s: float
    p99_s: float
    last_delivery_s: float
    publications: int
    statuses: int


def scenario_of(burst: Burst, links: Sequence[LinkChange] = ()) -> Scenario:
    """Return the scenario of a burst, with slow links if any."""
    chance = random.Random(burst.seed)
    overlay = overlay_from_text("paper:se", None)
    brokers = list(overlay.scot.brokers)
    clients = [_publisher("P", BrokerId.parse(burst.host), 0)]
    clients += [
        _subscriber(f"S{each}", broker, 0) for each, broker in enumerate(chance.sample(brokers, burst.subscribers))
    ]
    others = chance.sample(brokers, 10)
    clients += [_publisher(f"Q{each}", broker, 1) for each, broker in enumerate(others)]
    clients += [
        _subscriber(f"T{each}", broker, 1) for each, broker in enumerate(chance.sample(brokers, burst.subscribers))
    ]
    events = [Event(_publish("P", 0, burst.publications, 1000.0 / burst.per_second), at_ms=500.0)]
    if burst.background_per_second:
        every_ms = 1000.0 * len(others) / burst.background_per_second
        count = round((burst.lasts_s + 10.0) * 1000.0 / every_ms)
        events += [
            Event(_publish(f"Q{each}", 1, count, every_ms), at_ms=every_ms * each / len(others))
            for each in range(len(others))
        ]
    return Scenario("burst", overlay, RoutingSettings(), tuple(clients), tuple(links), tuple(events))


def _publisher(name: str, broker: BrokerId, topic: int) -> ClientSpec:
    text = f"topic = {topic}"
    return ClientSpec(name, broker, (AdvertiseItem(name, f"{name}/0", text, parse_filter(text)),))


def _subscriber(name: str, broker: BrokerId, topic: int) -> ClientSpec:
    text = f"topic = {topic}"
    return ClientSpec(name, broker, (SubscribeItem(name, f"{name}/0", text, parse_filter(text)),))


def _publish(client: str, topic: int, count: int, every_ms: float) -> Item:
    return PublishItem(client, Publication({"topic": topic}), count, every_ms)


def measure(burst: Burst, algorithm: Algorithm) -> Figures:
    """Run a burst, check every delivery, and return its figures."""
    run = run_scenario(scenario_of(burst).with_algorithm(algorithm), profile=ONE_SERVER)
    complaints = run.complaints()
    if complaints:
        raise SystemExit(f"WRONG: under {algorithm} routing {complaints[0]} ({len(complaints)} complaints)")
    return figures_of(run, burst)


def figures_of(run: Run, burst: Burst) -> Figures:
    """Return the figures of a run."""
    delays = sorted(each.delay_ms / 1000.0 for each in run.recorder.deliveries if each.client.startswith("S"))
    if len(delays) != burst.publications * burst.subscribers:
        raise SystemExit(f"WRONG: expected {burst.publications * burst.subscribers} deliveries, got {len(delays)}")
    last = {each.publication: 0.0 for each in run.recorder.deliveries if each.client.startswith("S")}
    order = {number: index for index, number in enumerate(sorted(last))}
    ends = [
        order[each.publication] / burst.per_second + each.delay_ms / 1000.0
        for each in run.recorder.deliveries
        if each.client.startswith("S")
    ]
    messages = run.messages()
    drain_s = max(ends)
    return Figures(
        statistics.fmean(delays),
        delays[int(0.99 * len(delays))],
        drain_s,
        messages["publication"],
        messages.get("status", 0),
    )


def bound_of(burst: Burst) -> tuple[float, float]:
    """Return the mean delay and the time of the last delivery that no routing can improve on."""
    scenario = scenario_of(burst)
    scot = scenario.overlay.scot
    ends = [BrokerId.parse(burst.host), *(each.broker for each in scenario.clients if each.name.startswith("S"))]
    neighbourhoods = [scot.neighbourhood(each) for each in ends]
    links = min(min(len(each.neighbours), len(each.primary_neighbours) * scot.clusters) for each in neighbourhoods)
    ratio = max(1.0, burst.per_second * COPY_MS / 1000.0 / links)
    return (ratio - 1.0) * burst.lasts_s / 2.0, ratio * burst.lasts_s


def _row(name: str, found: Sequence[Figures]) -> dict[str, Any]:
    means = {field: statistics.fmean(getattr(each, field) for each in found) for field in Figures.__slots__}
    return {"algorithm": name, **means}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all bursts, and print a table per host."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--hosts", default="A.0,G.0", help="the hosts of bursts: an edge and an inner broker (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--publications", type=int, default=5_000, help="(default: %(default)s)")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="(default: %(default)s)")
    wanted = parser.parse_args(arguments)
    algorithms, seeds = [Algorithm(each) for each in wanted.algorithms.split(",")], range(1, wanted.seeds + 1)
    for host in wanted.hosts.split(","):
        bursts = [Burst(host, seed, wanted.publications) for seed in seeds]
        rows = [_row(algorithm, [measure(each, algorithm) for each in bursts]) for algorithm in algorithms]
        mean_s, last_s = (statistics.fmean(each) for each in zip(*map(bound_of, bursts), strict=True))
        rows.append({"algorithm": "fluid bound", "mean_s": mean_s, "last_delivery_s": last_s})
        print_rows(f"a burst of {wanted.publications:,} at {host}", rows)


if __name__ == "__main__":
    main()
