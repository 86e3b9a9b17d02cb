"""Measure the cost of issuing and withdrawing subscriptions and advertisements at a broker with full tables.

The broker has 10,000 subscriptions of its cluster (some of local clients, most from a neighbour) and 500 advertisements
of its region. Subscriptions are boxes over six numbers, half of them with a symbol; advertisements announce one symbol
each, or all of them. It prints microseconds per request at the broker, including tables, matching, queues and
confirmations, the number of advertisements that a subscription intersects, and the time per intersecting advertisement.
Then it prints the time of the query to the index alone, and the ratio to the reference matcher, which reads every
entry. The results of both are compared; the benchmark fails if they differ.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from octopia.algorithms import make_broker
from octopia.broker import BrokerSettings
from octopia.content import Disjunction, Filter, Operator, Predicate
from octopia.experiments.gc_pause import gc_paused
from octopia.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from octopia.matching import INDEX, SCAN, MatcherFactory
from octopia.overlay import Scot, parse_tree
from octopia.protocol.messages import (
    Advertise,
    AdvertiseRequest,
    Subscribe,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)

HERE = BrokerId("b", 0)
NEIGHBOUR = BrokerId("a", 0)
CLIENT = ClientId("client")
SYMBOLS = [f"S{number}" for number in range(50)]
NUMBERS = ("open", "high", "low", "close", "volume", "date")
SCANNED = 20


class Workload:
    """Filters of subscriptions and advertisements, drawn from a seed."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)

    def interest(self) -> Disjunction:
        """Draw a subscription."""
        predicates = (
            [Predicate("symbol", Operator.EQ, self.chance.choice(SYMBOLS))] if self.chance.random() < 0.5 else []
        )
        for name in NUMBERS:
            low = self.chance.random()
            predicates.append(Predicate(name, Operator.BETWEEN, (low, low + self.chance.random())))
        return Disjunction((Filter(tuple(predicates)),))

    def offer(self) -> Disjunction:
        """Draw an advertisement."""
        symbol = Predicate("symbol", Operator.EXISTS)
        if self.chance.random() < 0.9:
            symbol = Predicate("symbol", Operator.EQ, self.chance.choice(SYMBOLS))
        return Disjunction((Filter((symbol, *(Predicate(name, Operator.GT, 0.0) for name in NUMBERS))),))


def full_broker(matchers: MatcherFactory, subscriptions: int, advertisements: int, seed: int) -> Any:
    """Return a broker with full tables."""
    scot = Scot(parse_tree("path:3"), 4)
    broker = make_broker(scot.neighbourhood(HERE), BrokerSettings(), matchers=matchers)
    work = Workload(seed)
    for number in range(subscriptions):
        broker.receive(NEIGHBOUR, [Subscribe(SubscriptionId(NEIGHBOUR, 1, number), work.interest())], 0.0)
    for number in range(advertisements):
        host = BrokerId("b", 1 + number % 3)
        broker.receive(host, [Advertise(AdvertisementId(host, 1, number), work.offer())], 0.0)
    broker.attach(CLIENT, 0.0)
    drain(broker)
    return broker


def drain(broker: Any) -> list[Any]:
    """Take everything that waits for the broker's neighbours and its client."""
    taken = []
    for peer in (NEIGHBOUR, BrokerId("c", 0), *(BrokerId("b", cluster) for cluster in (1, 2, 3)), CLIENT):
        while (message := broker.take(peer, 0.0)) is not None:
            taken.append((peer, message))
    return taken


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the microseconds that an action took, and its result."""
    begin = time.perf_counter()
    result = action()
    return (time.perf_counter() - begin) * 1e6, result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure with the index, and compare with the scan."""
    indexed = full_broker(INDEX, options.subscriptions, options.advertisements, options.seed)
    scanned = full_broker(SCAN, options.subscriptions, options.advertisements, options.seed)
    work = Workload(options.seed + 1)
    found: dict[str, Any] = {"subscriptions": options.subscriptions, "advertisements": options.advertisements}
    times: dict[str, list[float]] = {}
    intersecting = []
    with gc_paused():
        for number in range(options.requests):
            interest, offer = work.interest(), work.offer()
            intersecting.append(len(indexed.state.clt.intersected_by(interest)))
            requests = {
                "subscribe": SubscribeRequest(number, interest),
                "advertise": AdvertiseRequest(number, offer),
                "unadvertise": UnadvertiseRequest(number),
                "unsubscribe": UnsubscribeRequest(number),
            }
            for name, request in requests.items():
                took, _ = timed(lambda request=request: indexed.receive(CLIENT, [request], 0.0))  # type: ignore[misc]
                times.setdefault(name, []).append(took)
                said = drain(indexed)
                if number < SCANNED:
                    took, _ = timed(lambda request=request: scanned.receive(CLIENT, [request], 0.0))  # type: ignore[misc]
                    times.setdefault(f"{name}_scan", []).append(took)
                    if drain(scanned) != said:
                        raise SystemExit(f"WRONG: {name} {number}: the broker with the index sends other messages")
            for name, table, question in (
                ("intersected_by", "clt", interest),
                ("any_intersecting", "prt", offer),
            ):
                took, _ = timed(lambda table=table, name=name, question=question: getattr(  # type: ignore[misc]
                    getattr(indexed.state, table), name)(question))  # fmt: skip
                times.setdefault(name, []).append(took)
    found["intersecting"] = statistics.mean(intersecting)
    for name, taken in times.items():
        found[f"{name}_us"] = statistics.median(taken)
    for name in ("subscribe", "unsubscribe", "advertise", "unadvertise"):
        found[f"{name}_to_scan"] = found[f"{name}_scan_us"] / found[f"{name}_us"]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=10_000, help="(default: %(default)s)")
    parser.add_argument("--advertisements", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--requests", type=int, default=300, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    found = measure(parser.parse_args(arguments))
    if parser.parse_args(arguments).json:
        print(json.dumps(found))
        return
    print(f"{found['subscriptions']:,} subscriptions, {found['advertisements']} advertisements; a new "
          f"subscription intersects {found['intersecting']:.0f} of them")  # fmt: skip
    for name in ("subscribe", "unsubscribe", "advertise", "unadvertise"):
        each = found[f"{name}_us"]
        per = f"{each / found['intersecting']:6.1f} us per intersecting advertisement" if "sub" in name else ""
        print(f"{name:<18} {each:8.0f} us   the scan takes {found[name + '_to_scan']:6,.1f} times as long   {per}")
    for name in ("intersected_by", "any_intersecting"):
        print(f"{name:<18} {found[name + '_us']:8.1f} us   the query alone")


if __name__ == "__main__":
    main(sys.argv[1:])
