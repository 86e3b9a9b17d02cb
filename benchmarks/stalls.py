"""Measure the longest time for which anything holds the loop of a broker with many subscriptions.

The overlay and the way in which nodes are driven are those of ``recovery.py``: three regions in a row and two clusters,
and an input is one read, one request of the driver or one deadline, with decoding, handling and encoding. Scenarios:

- ``recovery``: the inner broker b.0 is killed, loses its state and restarts.
- ``exchange``: a link within the cluster was down while subscriptions came and went on one side, and comes back.
- ``confirmation``: all subscriptions are issued while a link is down, and confirmed when it is back.
- ``departure``: a client with all the subscriptions leaves.
- ``advertisements``: a broker hosts many advertisements; a link of its region comes back, then b.0 restarts.
- ``changes``: publications, each after a subscription and a withdrawal at a broker with all the subscriptions.

Each line shows the longest input of any broker and the longest pause of the garbage collector, in wall and CPU time. On
a busy machine the wall time says little. The collector is that of one process with all six brokers; like the process of
a broker, it leaves out what exists at the start. Tables are compared with the expected ones after each scenario.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

import recovery
from octopia.content import Disjunction, Filter, Operator, Predicate, Publication
from octopia.ids import ClientId
from octopia.protocol.messages import AdvertiseRequest, PublishRequest, SubscribeRequest, UnsubscribeRequest
from octopia.runtime.process import exclude_from_collection
from recovery import INNER, LEFT, PUBLISHING, RIGHT, Bench, interest
from tables import print_json, print_rows, verdict

LIMIT_MS = 100.0
CHANGED = 1_000
"""The number of subscriptions that come and go while a link is down, and of publications between changes."""
ADVERTISEMENTS_SHARE = 5
"""There is one advertisement per this number of subscriptions."""


def measure_exchange(subscriptions: int) -> dict[str, Any]:
    """Let a link come back after subscriptions on one side have changed."""
    changed = min(CHANGED, subscriptions // 4)
    bench = recovery.publishing_bench()
    recovery.subscribe(bench, LEFT, range(0, subscriptions, 2))
    client = recovery.subscribe(bench, RIGHT, range(1, subscriptions, 2))
    bench.settle()
    bench.check(subscriptions)
    bench.cut(INNER, RIGHT)
    issued = [SubscribeRequest(subscriptions + 2 * each, interest(each)) for each in range(changed)]
    bench.ask(RIGHT, client, [*issued, *(UnsubscribeRequest(1 + 2 * each) for each in range(changed))])
    bench.settle()
    with bench.measured("exchange", subscriptions) as row:
        bench.connect(INNER, RIGHT)
        bench.settle()
    bench.check(subscriptions)
    return row


def measure_advertisements(subscriptions: int) -> dict[str, Any]:
    """Let the link between a broker that hosts many advertisements and b.0 come back, then restart b.0."""
    advertised = max(1, subscriptions // ADVERTISEMENTS_SHARE)
    bench = Bench()
    publisher = bench.join(PUBLISHING, "publisher")
    bench.ask(PUBLISHING, publisher, [AdvertiseRequest(each, _offer(each)) for each in range(advertised)])
    recovery.subscribe(bench, LEFT, range(0, subscriptions, 100))
    bench.settle()
    expected = _bits(bench)
    with bench.measured("advertisements", advertised) as row:
        bench.cut(INNER, PUBLISHING)
        bench.connect(INNER, PUBLISHING)
        bench.settle()
        bench.restart(INNER)
        bench.settle()
    if len(bench.state(INNER).clt) != advertised or _bits(bench) != expected or not any(expected):
        raise SystemExit(f"WRONG: b.0 knows {len(bench.state(INNER).clt)} of {advertised} advertisements")
    return row


def _offer(number: int) -> Disjunction:
    symbol = Predicate("symbol", Operator.EQ, f"S{number % 500}")
    return Disjunction((Filter((symbol, Predicate("price", Operator.GT, float(number)))),))


def _bits(bench: Bench) -> list[bool]:
    """Return which advertisements cluster 0 wants, as their host broker knows it."""
    return [0 in entry.civ and not entry.pending for entry in bench.state(PUBLISHING).clt]


def measure_changes(subscriptions: int) -> dict[str, Any]:
    """Change the subscriptions of a broker before each publication."""
    changed = min(CHANGED, subscriptions // 4)
    bench = recovery.publishing_bench()
    client = recovery.subscribe(bench, LEFT, range(subscriptions))
    bench.settle()
    publisher = ClientId("publisher", 1)
    with bench.measured("changes", subscriptions) as row:
        for number in range(changed):
            # The highest symbol number that is advertised and subscribed to is 19.
            change = [SubscribeRequest(subscriptions + number, interest(number)), UnsubscribeRequest(1 + number)]
            bench.ask(LEFT, client, change)
            publication = Publication({"symbol": "S0", "price": 0.5})
            bench.ask(PUBLISHING, publisher, [PublishRequest(number, publication, 0.0)])
            bench.settle()
    if bench.deliveries[client] != changed:
        raise SystemExit(f"WRONG: {bench.deliveries[client]} deliveries, expected {changed}")
    bench.check(subscriptions)
    return row


SCENARIOS: dict[str, Callable[[int], dict[str, Any]]] = {
    "recovery": recovery.measure_recovery,
    "exchange": measure_exchange,
    "confirmation": recovery.measure_confirmation,
    "departure": recovery.measure_departure,
    "advertisements": measure_advertisements,
    "changes": measure_changes,
}


def measure(scenario: str, subscriptions: int) -> dict[str, Any]:
    """Run one scenario, and return the longest times."""
    row = SCENARIOS[scenario](subscriptions)
    return {
        "scenario": scenario,
        "entries": row["subscriptions"],
        "input_wall_ms": max(row["inner_wall_ms"], row["others_wall_ms"]),
        "input_cpu_ms": max(row["inner_cpu_ms"], row["others_cpu_ms"]),
        "collector_wall_ms": row["collector_ms"],
        "collector_cpu_ms": row["collector_cpu_ms"],
        "cpu_s": row["cpu_s"],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000, help="the number of subscriptions (default: 100,000)")
    parser.add_argument("--scenarios", nargs="+", choices=[*SCENARIOS], default=[*SCENARIOS], help="(default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args(arguments)
    exclude_from_collection()
    rows = []
    try:
        for scenario in options.scenarios:
            rows.append(measure(scenario, options.size))
            if options.json:
                print_json(rows[-1])
    finally:
        gc.unfreeze()
    longest_ms = max(max(row["input_cpu_ms"], row["collector_cpu_ms"]) for row in rows)
    if not options.json:
        print_rows("the longest input, and the longest pause of the garbage collector", rows)
        limit = f"the limit of {LIMIT_MS:.0f} ms is {verdict(longest_ms, LIMIT_MS)}"
        print(f"the longest of all took {longest_ms:.0f} ms of CPU time; {limit}")


if __name__ == "__main__":
    main(sys.argv[1:])
