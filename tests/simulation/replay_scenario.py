"""Replay the random scenario of one seed, and print its story: ``replay_scenario.py SEED [--check]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from delivery_oracle import play
from random_scenarios import RandomScenario, draw_scenario

from octopia.scenario import AdvertiseItem, LinkChange, PublishItem, SubscribeItem, UnadvertiseItem, UnsubscribeItem


def replay_command(seed: int, *, check: bool = False) -> str:
    """Return the command that replays a seed from the root of the repository."""
    return f".venv/bin/python tests/simulation/replay_scenario.py {seed}{' --check' if check else ''}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was drawn, what happened, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--check", action="store_true", help="test all invariants after every step")
    options = parser.parse_args(arguments)
    drawn = draw_scenario(options.seed)
    for line in describe(drawn):
        print(line)
    outcome = play(drawn, check=options.check)
    print("publication messages")
    for hop in outcome.run.recorder.hops:
        if hop.publication is not None:
            print(f"  {hop.publication}: {hop.sender}>{hop.receiver}{f'[{hop.civ}]' if hop.civ else ''}")
    print("complaints" if outcome.complaints else "no complaints")
    for complaint in outcome.complaints:
        print(f"  {complaint}")
    return 1 if outcome.complaints else 0


def describe(drawn: RandomScenario) -> Iterator[str]:
    """Yield a scenario as lines of text."""
    scenario = drawn.scenario
    scot = scenario.overlay.scot
    tree = ", ".join(f"{low}-{high}" for low, high in scot.tree.edges) or scot.regions[0]
    routing = scenario.routing
    yield f"seed {drawn.seed}, congestion {drawn.family.value}: tree {tree}, {scot.clusters} clusters"
    confirmed = "with" if routing.confirmations else "without"
    yield (
        f"{routing.algorithm.value} routing {confirmed} confirmations, tau {routing.tau:g}, "
        f"profile {scenario.simulator.profile}"
    )
    for client in scenario.clients:
        yield f"{client.name} at {client.broker}"
        yield from (f"  {_describe_item(item)}" for item in client.items)
    yield from (_describe_item(link) for link in scenario.links)
    number = 0
    for index, phase in enumerate(drawn.phases, start=1):
        yield f"phase {index}"
        for each in phase:
            if isinstance(each.item, PublishItem):
                attributes = dict(each.item.publication.attributes)
                yield f"  {each.offset_ms:g} ms: {each.item.client} publishes {number}: {attributes}"
                number += 1
            else:
                yield f"  {each.offset_ms:g} ms: {_describe_item(each.item)}"


def _describe_item(item: object) -> str:
    match item:
        case AdvertiseItem():
            return f"{item.client} advertises {item.id}{', ordered' if item.ordered else ''}: {item.text}"
        case SubscribeItem():
            return f"{item.client} subscribes {item.id}: {item.text}"
        case UnadvertiseItem() | UnsubscribeItem():
            return f"{item.client} withdraws {item.id}"
        case LinkChange():
            ends = ", ".join(f"{source}>{target}" for source, target in item.directions)
            values = {
                "congested": item.verdict and item.verdict.value,
                "queue length": item.queue_length,
                "rate": item.shape.rate,
                "delay_ms": item.shape.delay_ms,
            }
            known = ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)
            return f"link {ends}: {known or 'as it is'}"
        case _:
            return str(item)


if __name__ == "__main__":
    sys.exit(main())
