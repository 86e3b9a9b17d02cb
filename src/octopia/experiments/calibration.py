"""The calibration of the simulator: the costs of the real code on this machine, measured and made into a profile.

- *Matching*: the index that brokers use is filled with subscriptions, and publications are matched in batches as large
  as those that connections bring under load. A line through the times at several sizes gives the time that does not
  depend on the table, and the time per entry.
- *Messages*: the CPU time of a broker in its own process, per publication that it receives from a client and delivers
  to one subscriber, without the time of matching. It includes everything between two sockets: reading, decoding, the
  sessions, finding the advertisement, routing, encoding, writing.
- *Delays*: publications at a low rate, over one broker and over two. The delay from publisher to subscriber is twice
  the delay of a client plus the time of a broker; the second broker adds one link and its own time.

Everything is measured on one machine. Links between machines get the delay of a link on this one.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from octopia.content import Publication, parse_filter
from octopia.errors import NetworkError
from octopia.experiments.bench import Load, Result, run_load
from octopia.experiments.local_overlay import at_free_addresses, cpu_s_of, running, urls_of
from octopia.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from octopia.matching import INDEX
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.settings import PAPER_ROUTING
from octopia.simulator.profiles import Profile
from octopia.transport.loop import run_loop
from octopia.workloads.provenance import describe_machine

SYMBOLS = 500
BATCH = 64
FAN = 20
"""The number of subscribers for measuring the cost of a delivery."""
DELAY_MIN_MS = 0.001
_HOST = BrokerId("a", 0)
_CLIENT = ClientId("calibrate")


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """The amount of work to measure."""

    subscriptions: tuple[int, ...] = (100, 1_000, 10_000)
    advertisements: tuple[int, ...] = (100, 1_000, 10_000)
    matched: int = 20_000
    publications: int = 20_000
    rounds: int = 3
    slow: int = 600
    rate: float = 200.0

    @classmethod
    def quick(cls) -> Scale:
        """Return a scale that takes a few seconds."""
        return cls((100, 1_000), (100, 1_000), matched=2_000, publications=2_000, rounds=1, slow=60)


@dataclasses.dataclass(frozen=True, slots=True)
class Calibration:
    """The measurements, with the machine and the date."""

    machine: str
    date: str
    matching_us: dict[int, float]
    intersecting_us: dict[int, float]
    publication_us: float
    delivery_us: float
    one_broker_ms: float
    two_brokers_ms: float
    profile: Profile

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield names and values for display."""
        for size, cost_us in self.matching_us.items():
            yield f"matching a publication, {size:,} subscriptions (µs)", f"{cost_us:.2f}"
        for size, cost_us in self.intersecting_us.items():
            yield f"subscribing, {size:,} advertisements (µs)", f"{cost_us:.2f}"
        yield "a broker, per publication to one subscriber (µs)", f"{self.publication_us:.2f}"
        yield "a broker, per further delivery (µs)", f"{self.delivery_us:.2f}"
        yield "client to client over one broker, p50 (ms)", f"{self.one_broker_ms:.3f}"
        yield "client to client over two brokers, p50 (ms)", f"{self.two_brokers_ms:.3f}"
        for key, value in self._costs():
            yield f"profile: {key}", f"{value:g}"

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return dataclasses.asdict(self)

    def to_toml(self, name: str) -> str:
        """Return the profile as a file that the simulator reads."""
        lines = [
            f"# Measured by octopia calibrate on {self.date}: {self.machine}.",
            f"# A broker spends {self.publication_us:.1f} µs on a publication for one local subscriber, and "
            f"{self.delivery_us:.1f} µs on each",
            "# further delivery, which the simulator does not count. The choice of links is part of message_us.",
            "# All brokers were on one machine: link_delay_ms is not that of a network.",
            f'name = "{name}"',
            f'description = "{self.profile.description}"',
            *(f"{key} = {value!r}" for key, value in self._costs()),
        ]
        return "\n".join(lines) + "\n"

    def _costs(self) -> Iterator[tuple[str, float]]:
        for key, value in self.profile.assumptions().items():
            if isinstance(value, float):
                yield key, value


def calibrate_here(scale: Scale) -> Calibration:
    """Measure everything on this machine, which takes a while."""
    matching = {size: _matching_us(size, scale) for size in scale.subscriptions}
    intersecting = {size: _intersecting_us(size) for size in scale.advertisements}
    match_us, match_per_us = fit_line(matching)
    _, intersect_per_us = fit_line(intersecting)
    one_us, many_us, one_ms = _one_broker(scale)
    two_ms = _two_brokers_ms(scale)
    message_us = max(0.0, one_us - match_us - match_per_us)
    service_ms = one_us / 1000.0
    machine = describe_machine()
    date = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d")
    link_ms = max(DELAY_MIN_MS, two_ms - one_ms - service_ms)
    profile = Profile(
        "measured",
        f"measured on {date}, {machine}; all brokers on one machine",
        link_delay_ms=round(link_ms, 4),
        same_machine_delay_ms=round(link_ms, 4),
        client_delay_ms=round(max(DELAY_MIN_MS, (one_ms - service_ms) / 2.0), 4),
        message_us=round(message_us, 3),
        match_us=round(match_us, 3),
        match_per_subscription_us=round(match_per_us, 6),
        intersect_per_entry_us=round(intersect_per_us, 6),
    )
    further_us = max(0.0, (many_us - one_us) / (FAN - 1))
    return Calibration(machine, date, matching, intersecting, one_us, further_us, one_ms, two_ms, profile)


def fit_line(points: dict[int, float]) -> tuple[float, float]:
    """Return the intercept and the slope of the best line through points; neither is below 0."""
    count, mean_x, mean_y = len(points), sum(points) / len(points), sum(points.values()) / len(points)
    spread = sum((x - mean_x) ** 2 for x in points)
    if count < 2 or not spread:
        return mean_y, 0.0
    slope = max(0.0, sum((x - mean_x) * (y - mean_y) for x, y in points.items()) / spread)
    return max(0.0, mean_y - slope * mean_x), slope


# Tables.


def _matching_us(size: int, scale: Scale) -> float:
    draw, table = random.Random(size), INDEX.subscriptions()
    for number in range(size):
        low = draw.uniform(0.0, 900.0)
        text = f"symbol = 's{draw.randrange(SYMBOLS)}' AND price >= {low} AND price <= {low + 100.0} AND volume > 10"
        table.add(SubscriptionId(_HOST, 1, number), parse_filter(text), _CLIENT)
    batches = [[_bar(draw) for _ in range(BATCH)] for _ in range(max(1, scale.matched // BATCH))]

    def match_all() -> None:
        for batch in batches:
            table.match_many(batch)

    return _best_us(match_all, scale.rounds) / (len(batches) * BATCH)


def _intersecting_us(size: int) -> float:
    draw, table = random.Random(size), INDEX.advertisements()
    for number in range(size):
        text = f"symbol = 's{draw.randrange(SYMBOLS)}' AND price > 0 AND volume > 0"
        table.add(AdvertisementId(_HOST, 1, number), parse_filter(text), _CLIENT)
    interests = [parse_filter(f"symbol = 's{draw.randrange(SYMBOLS)}' AND price > {n}") for n in range(100)]

    def intersect_all() -> None:
        for interest in interests:
            table.intersected_by(interest)

    return _best_us(intersect_all, 3) / len(interests)


def _bar(draw: random.Random) -> Publication:
    price = draw.uniform(0.0, 1000.0)
    named: dict[str, float | int | str] = {"symbol": f"s{draw.randrange(SYMBOLS)}", "price": price, "volume": 1000}
    return Publication(named | {"open": price, "high": price, "low": price, "day": 1})


def _best_us(work: Callable[[], None], rounds: int) -> float:
    """Return the CPU time of the fastest round, after a warm-up."""
    work()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times) * 1e6


# The network.


def _overlay(tree: str) -> Overlay:
    """Return an overlay of one cluster under the paper's routing, whose runs are simulated with these costs."""
    return at_free_addresses(dataclasses.replace(overlay_from_text(tree, 1), routing=PAPER_ROUTING))


def _one_broker(scale: Scale) -> tuple[float, float, float]:
    """Return the CPU time per publication for one and for many subscribers, and the delay at a low rate."""
    overlay = _overlay("a")
    with running(overlay, 1) as workers:
        urls, [pid] = urls_of(overlay), workers.pids
        costs = {}
        for subscribers in (1, FAN):
            load = Load(max(100, scale.publications // subscribers), subscribers=subscribers)
            _run(urls, urls, dataclasses.replace(load, publications=100))
            rounds = []
            for _ in range(scale.rounds):
                begin = cpu_s_of(pid)
                _run(urls, urls, load)
                rounds.append((cpu_s_of(pid) - begin) / load.publications * 1e6)
            costs[subscribers] = min(rounds)
        delay_ms = _run(urls, urls, Load(scale.slow, rate=scale.rate)).p50_ms
    return costs[1], costs[FAN], delay_ms


def _two_brokers_ms(scale: Scale) -> float:
    overlay = _overlay("path:2")
    with running(overlay, 2):
        urls = urls_of(overlay)
        return _run(urls[:1], urls[1:], Load(scale.slow, rate=scale.rate)).p50_ms


def _run(publish_at: Sequence[str], subscribe_at: Sequence[str], load: Load) -> Result:
    result = run_loop(run_load(publish_at, subscribe_at, load, lambda *_: None))
    if not result.is_exact:
        raise NetworkError(f"expected every delivery once, but {result.lost} were lost and {result.doubled} doubled")
    return result
