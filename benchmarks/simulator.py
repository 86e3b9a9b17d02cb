"""Measure the rate at which the simulator carries publications, and its CPU time by part.

The overlay is the paper's S_e (14 regions x 4 clusters) under the ``unit`` profile with dynamic routing, where nothing
congests. The workload is a synthetic stock market: bars of seven attributes, and subscriptions for a box of prices,
volumes and dates that holds about 2% of the bars. Subscribers come first, then publishers, then publications.

How to read the numbers:

- A *message-hop* is a publication that arrives at a broker over a link. A *message* is anything that arrives at a
  broker, so requests of clients count too. An *event* is anything that arrives: a message at a broker, or a delivery at
  a client. With ``--whole``, as in large runs, all deliveries of a publication at one broker are one event. All rates
  are by CPU time, not virtual time.
- *bare events per second* is the rate of a bare heapq event loop on the same machine, in turns with the simulation:
  push, pop and call, with as many events as the simulation had. It is the upper limit. *The ratio* is that of events to
  bare events. The ratio of message-hops to bare events is lower, since a hop comes with several deliveries. Compare
  ratios between machines, not rates.
- *matching*, *broker* and *simulator* are shares of the publishing time: in the matchers, in brokers without their
  matchers, and in everything else, which includes the nodes. They are measured with stopwatches in a separate run, so
  that the stopwatches do not disturb the other numbers.
- *without matching* is the rate of message-hops in the rest of the time, as if matching cost nothing.

The objects of the set-up and the deliveries so far live until the end, so they are excluded from garbage collection
(``gc.freeze``).

Deliveries are collected while the clock runs, and checked when it has stopped: every one is compared with a direct
evaluation of the boxes. If one is missing, duplicated or wrong, the benchmark fails.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import dataclasses
import gc
import heapq
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress

from octopia.broker import BrokerSettings
from octopia.broker.core import OctopiaBroker
from octopia.broker.interface import Broker, Delivered, Fact, Routed
from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, Value
from octopia.ids import BrokerId
from octopia.matching import INDEX, SCAN, MatcherFactory
from octopia.overlay import Scot, parse_tree
from octopia.protocol import MessageKind
from octopia.protocol.messages import AdvertiseRequest, ClientReply, Deliver, PublishRequest, SubscribeRequest
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.profiles import UNIT
from octopia.simulator.world import Environment, World

SELECTIVITY = 0.02
POOL = 1_000
"""The number of bars that publications and the anchors of subscriptions are drawn from."""
ANCHORS = 400
MATCHERS = {"index": INDEX, "scan": SCAN}
ROUNDS = 5
BARE_EVENTS = 100_000
"""The least number of events of the bare loop per round."""
SUBSCRIBERS_AT_ONCE = 500
NUMBERS = ("open", "high", "low", "close", "volume", "date")

Box = dict[str, tuple[float, float]]

Numbered = tuple[int, tuple[int, Publication]]
"""A publication with its publisher's number, and its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """The publications, their publishers and subscribers; clients are given by their host brokers."""

    publishers: list[BrokerId]
    subscribers: list[BrokerId]
    boxes: list[Box]
    publications: list[tuple[int, Publication]]


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The results; every time is CPU time in seconds."""

    brokers: int
    publishers: int
    subscribers: int
    publications: int
    seed: int
    whole: bool
    selectivity: float
    deliveries: int
    setup_s: float
    setup_messages: int
    setup_messages_per_s: float
    publishing_s: float
    hops: int
    hops_per_s: float
    messages: int
    messages_per_s: float
    events: int
    events_per_s: float
    bare_events_per_s: float
    hops_to_bare_ratio: float
    events_to_bare_ratio: float
    hops_per_s_without_matching: float
    matching_share: float
    broker_share: float
    simulator_share: float


# The workload.


def draw_workload(brokers: Sequence[BrokerId], sizes: argparse.Namespace) -> Workload:
    """Draw publications and subscriptions from one market."""
    rng = random.Random(sizes.seed)
    pool = list(draw_bars(rng, POOL))
    boxes = draw_boxes(rng, pool)
    publications = [
        (rng.randrange(sizes.publishers), Publication(rng.choice(pool), payload=str(number).encode()))
        for number in range(sizes.publications)
    ]
    return Workload(
        publishers=[rng.choice(brokers) for _ in range(sizes.publishers)],
        subscribers=[rng.choice(brokers) for _ in range(sizes.subscribers)],
        boxes=[next(boxes) for _ in range(sizes.subscribers)],
        publications=publications,
    )


def draw_bars(rng: random.Random, count: int) -> Iterator[dict[str, Value]]:
    """Draw daily bars of symbols whose prices wander, each from its own level."""
    symbols = {f"S{number:03}": rng.lognormvariate(4.0, 0.8) for number in range(100)}
    for _ in range(count):
        symbol = rng.choice(list(symbols))
        opening = symbols[symbol]
        closing = symbols[symbol] = opening * rng.lognormvariate(0.0, 0.02)
        yield {
            "symbol": symbol,
            "open": round(opening, 2),
            "high": round(max(opening, closing) * (1 + rng.expovariate(100)), 2),
            "low": round(min(opening, closing) * (1 - min(rng.expovariate(100), 0.5)), 2),
            "close": round(closing, 2),
            "volume": round(rng.lognormvariate(13.0, 1.0)),
            "date": rng.randint(20_180_101, 20_181_231),
        }


def draw_boxes(rng: random.Random, pool: Sequence[dict[str, Any]]) -> Iterator[Box]:
    """Draw boxes around an anchor and the bars nearest to it in rank space, as many as the selectivity requires.

    Distance is the largest difference of ranks over all numbers. A box around all bars within some distance holds no
    others (except for ties), so its share of the pool is known in advance.
    """
    ranks = [_ranks(pool, name) for name in NUMBERS]
    anchors = rng.sample(range(len(pool)), ANCHORS)
    nearest: dict[int, list[int]] = {}
    wanted = SELECTIVITY * len(pool)
    while True:
        anchor = rng.choice(anchors)
        if anchor not in nearest:
            distances = [max(abs(rank[each] - rank[anchor]) for rank in ranks) for each in range(len(pool))]
            nearest[anchor] = sorted(range(len(pool)), key=distances.__getitem__)
        size = round(rng.uniform(0.5 * wanted, 1.5 * wanted))
        inside = [pool[each] for each in nearest[anchor][:size]]
        yield {name: (min(bar[name] for bar in inside), max(bar[name] for bar in inside)) for name in NUMBERS}


def _ranks(pool: Sequence[dict[str, Any]], name: str) -> list[int]:
    values = sorted(bar[name] for bar in pool)
    return [bisect.bisect_left(values, bar[name]) for bar in pool]


def interest_of(box: Box) -> Disjunction:
    """Return the subscription for a box."""
    predicates = tuple(Predicate(name, Operator.BETWEEN, bounds) for name, bounds in box.items())
    return Disjunction((Filter(predicates),))


def offer_of_bars() -> Disjunction:
    """Return the advertisement of every publisher."""
    numbers = tuple(Predicate(name, Operator.GT, 0) for name in NUMBERS)
    return Disjunction((Filter((Predicate("symbol", Operator.EXISTS), *numbers)),))


# Measurements.


class Stopwatch:
    """The total time between its entries and exits."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.total_s = 0.0
        self._clock = clock
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = self._clock()

    def __exit__(self, *error: object) -> None:
        self.total_s += self._clock() - self._since


@contextlib.contextmanager
def timed(stopwatch: Stopwatch, *methods: tuple[type, str]) -> Iterator[None]:
    """Measure the time of methods with a stopwatch, within the context."""
    with contextlib.ExitStack() as stack:
        for owner, name in methods:
            original = getattr(owner, name)
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, _timed(stopwatch, original))
        yield


def _timed(stopwatch: Stopwatch, method: Callable[..., Any]) -> Callable[..., Any]:
    def method_with_stopwatch(*arguments: Any) -> Any:
        with stopwatch:
            return method(*arguments)

    return method_with_stopwatch


class Receipts:
    """An observer that keeps what reaches clients, one by one or whole; it must be cheap, since its time is measured.

    ``events`` is the number of arrivals.
    """

    def __init__(self) -> None:
        self._now: list[ClientReply | Delivered] = []
        self._before: list[list[ClientReply | Delivered]] = []

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Do nothing: the trace is off."""

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Record a delivery."""
        self._now.append(reply)

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Record the deliveries of a publication to all clients of a broker."""
        self._now.append(delivered)

    @property
    def events(self) -> int:
        """The number of arrivals so far."""
        return sum(map(len, self._before)) + len(self._now)

    def put_aside(self) -> None:
        """Put everything where the garbage collector does not look."""
        self._before.append(self._now)
        self._now = []
        gc.freeze()

    def received(self) -> Counter[tuple[int, int]]:
        """Return the counts of deliveries by (publication, subscriber); a handle is its subscriber's number."""
        received: Counter[tuple[int, int]] = Counter()
        for arrival in itertools.chain(*self._before, self._now):
            if isinstance(arrival, Delivered):
                number = int(arrival.copy.publication.payload)
                received.update((number, handle) for _, handles in arrival.plan for handle in handles)
            elif isinstance(arrival, Deliver):
                received.update((int(arrival.publication.payload), handle) for handle in arrival.handles)
            else:
                raise SystemExit(f"expected deliveries only, got {arrival}")
        return received


def messages_sent(world: World) -> Counter[MessageKind]:
    """Return the number of messages between brokers so far, by kind."""
    sent: Counter[MessageKind] = Counter()
    for broker in world.brokers.values():
        sent.update(broker.counters.sent)
    return sent


def set_up(world: World, workload: Workload, progress: Progress) -> None:
    """Let all subscribers subscribe, then all publishers advertise."""
    task = progress.add_task("subscribing", total=len(workload.subscribers))
    for number, broker in enumerate(workload.subscribers):
        client = world.attach(f"S{number}", broker)
        world.request(client, SubscribeRequest(number, interest_of(workload.boxes[number])))
        if number % SUBSCRIBERS_AT_ONCE == 0:
            world.run()
            progress.update(task, completed=number)
    world.run()
    progress.update(task, completed=len(workload.subscribers))
    for number, broker in enumerate(workload.publishers):
        client = world.attach(f"P{number}", broker)
        world.request(client, AdvertiseRequest(0, offer_of_bars()))
    world.run()


def publish(world: World, numbered: Sequence[Numbered]) -> None:
    """Publish, and let everything arrive."""
    for number, (publisher, publication) in numbered:
        world.request(f"P{publisher}", PublishRequest(number, publication, world.agenda.now_ms))
    world.run()


def run_bare_loop(events: int) -> None:
    """Run the core of any discrete-event simulation with heapq: push, pop and call, with a thousand events planned."""
    heap: list[tuple[int, int, Callable[[int], None], int]] = []
    ahead = min(events, 1_000)

    def nothing(argument: int) -> None:
        """Do nothing."""

    for number in range(ahead):
        heapq.heappush(heap, (number * 7919 % 1_000, number, nothing, number))
    for number in range(ahead, events):
        time_ns, _, action, argument = heapq.heappop(heap)
        action(argument)
        heapq.heappush(heap, (time_ns + number * 7919 % 1_000, number, nothing, number))
    while heap:
        _, _, action, argument = heapq.heappop(heap)
        action(argument)


# Checks.


def expected_receipts(workload: Workload) -> set[tuple[int, int]]:
    """Return the required deliveries, by comparing numbers with bounds."""
    boxes = [list(box.items()) for box in workload.boxes]
    return {
        (number, subscriber)
        for number, (_, publication) in enumerate(workload.publications)
        for subscriber, box in enumerate(boxes)
        if all(low <= publication.attributes[name] <= high for name, (low, high) in box)  # type: ignore[operator]
    }


def check_receipts(received: Counter[tuple[int, int]], expected: set[tuple[int, int]]) -> None:
    """Exit with an error unless every subscriber got its publications, once."""
    missing, needless = expected - received.keys(), received.keys() - expected
    doubled = sum(1 for times in received.values() if times > 1)
    if missing or needless or doubled or received.total() != len(expected):
        raise SystemExit(
            f"WRONG: expected {len(expected)} deliveries, got {received.total()}: {len(missing)} are missing, "
            f"{len(needless)} are unwanted, {doubled} are duplicated"
        )


def measure_shares(world: World, matchers: MatcherFactory, numbered: Sequence[Numbered]) -> tuple[float, float]:
    """Publish everything once more, and return the shares of the time in matchers and in the rest of brokers."""
    total, in_brokers, matching = (Stopwatch(time.perf_counter) for _ in range(3))  # The other clock is slow to read.
    inputs = [(OctopiaBroker, name) for name in ("receive", "take", "take_all", "outlet", "drain_for_clients")]
    questions = [(matchers.subscriptions, "match_many"), (matchers.advertisements, "conforming")]
    with timed(in_brokers, *inputs), timed(matching, *questions):
        for start in range(ROUNDS):
            with total:
                publish(world, numbered[start::ROUNDS])
    return matching.total_s / total.total_s, (in_brokers.total_s - matching.total_s) / total.total_s


def measure(sizes: argparse.Namespace, progress: Progress) -> Measurement:
    """Set up, publish in rounds that take turns with the bare loop, and check the deliveries."""
    scot = Scot(parse_tree("paper:se"), 4)
    workload = draw_workload(scot.brokers, sizes)
    setting_up, publishing, bare = Stopwatch(), Stopwatch(), Stopwatch()
    receipts = Receipts()
    # Links never fail here and confirmations are off: only the paper's messages are measured.
    settings = BrokerSettings(RoutingSettings(Algorithm.DYNAMIC, confirmations=False))
    environment = Environment(UNIT, seed=sizes.seed, whole=sizes.whole)
    matchers = MATCHERS[sizes.matcher]
    world = World(scot, settings, environment, [receipts], matchers=matchers)
    with setting_up:
        set_up(world, workload, progress)
    gc.collect()
    gc.freeze()
    set_up_sent = messages_sent(world)
    bare_events = 0
    numbered = list(enumerate(workload.publications))
    task = progress.add_task("publishing", total=len(numbered))
    for start in range(ROUNDS):
        before = messages_sent(world).total() + receipts.events
        with publishing:
            publish(world, numbered[start::ROUNDS])
        receipts.put_aside()
        progress.update(task, advance=len(numbered[start::ROUNDS]))
        events = messages_sent(world).total() + receipts.events - before + len(numbered[start::ROUNDS])
        repeats = 1 + BARE_EVENTS // events
        with bare:
            for _ in range(repeats):
                run_bare_loop(events)
        bare_events += events * repeats
    gc.unfreeze()
    expected = expected_receipts(workload)
    received = receipts.received()
    check_receipts(received, expected)
    sent = messages_sent(world) - set_up_sent
    setup_messages = set_up_sent.total() + sizes.subscribers + sizes.publishers
    messages = sent.total() + sizes.publications
    hops = sent[MessageKind.PUBLICATION]
    events = messages + receipts.events
    matching_share, broker_share = measure_shares(world, matchers, numbered)
    bare_events_per_s = bare_events / bare.total_s
    return Measurement(
        brokers=len(scot.brokers),
        publishers=sizes.publishers,
        subscribers=sizes.subscribers,
        publications=sizes.publications,
        seed=sizes.seed,
        whole=sizes.whole,
        selectivity=len(expected) / (sizes.publications * sizes.subscribers),
        deliveries=received.total(),
        setup_s=setting_up.total_s,
        setup_messages=setup_messages,
        setup_messages_per_s=setup_messages / setting_up.total_s,
        publishing_s=publishing.total_s,
        hops=hops,
        hops_per_s=hops / publishing.total_s,
        messages=messages,
        messages_per_s=messages / publishing.total_s,
        events=events,
        events_per_s=events / publishing.total_s,
        bare_events_per_s=bare_events_per_s,
        hops_to_bare_ratio=hops / publishing.total_s / bare_events_per_s,
        events_to_bare_ratio=events / publishing.total_s / bare_events_per_s,
        hops_per_s_without_matching=hops / (publishing.total_s * (1 - matching_share)),
        matching_share=matching_share,
        broker_share=broker_share,
        simulator_share=1 - matching_share - broker_share,
    )


def describe(result: Measurement) -> Iterator[str]:
    """Yield the results as lines of text."""
    yield f"S_e, {result.brokers} brokers, {result.publishers} publishers, {result.subscribers} subscribers"
    yield f"selectivity          {result.selectivity:12.2%}   (target: {SELECTIVITY:.0%})"
    yield f"set-up               {result.setup_s:12.2f} s ({result.setup_messages_per_s:,.0f} messages per second)"
    yield f"publishing           {result.publishing_s:12.2f} s ({result.publications} publications)"
    yield f"message-hops         {result.hops_per_s:12,.0f} per second ({result.hops} in total)"
    yield f"per message-hop      {1e6 / result.hops_per_s:12.1f} µs"
    yield f"messages             {result.messages_per_s:12,.0f} per second ({result.messages} in total)"
    yield f"events               {result.events_per_s:12,.0f} per second ({result.events} in total)"
    yield f"bare heapq events    {result.bare_events_per_s:12,.0f} per second"
    yield f"the ratio            {result.events_to_bare_ratio:12.5f} events per bare event"
    yield f"                     {result.hops_to_bare_ratio:12.5f} message-hops per bare event"
    yield f"matching             {result.matching_share:12.1%} of the publishing time"
    yield f"broker               {result.broker_share:12.1%} of the publishing time, without matching"
    yield f"simulator            {result.simulator_share:12.1%} of the publishing time"
    yield f"without matching     {result.hops_per_s_without_matching:12,.0f} message-hops per second"
    yield f"deliveries           {result.deliveries:12,} checked one by one, all correct"


def positive(text: str) -> int:
    """Parse a positive number."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the simulator on the paper's overlay S_e.")
    parser.add_argument(
        "--publications", type=positive, default=1_000, help="number of publications (default: %(default)s)"
    )
    parser.add_argument(
        "--subscribers", type=positive, default=10_000, help="number of subscribers (default: %(default)s)"
    )
    parser.add_argument("--publishers", type=positive, default=100, help="number of publishers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the workload (default: %(default)s)")
    parser.add_argument(
        "--matcher", choices=list(MATCHERS), default="index", help="matcher to use (default: %(default)s)"
    )
    parser.add_argument(
        "--whole", action="store_true", help="let all deliveries of a publication at a broker be one event"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    sizes = parser.parse_args(arguments)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        result = measure(sizes, progress)
    if sizes.json:
        print(json.dumps(dataclasses.asdict(result)))
    else:
        print("\n".join(describe(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
