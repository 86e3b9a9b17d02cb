"""Requests that overtake each other: in whatever order links move, the tables are right in the end."""

from __future__ import annotations

import random

import pytest
from tid_support import TidOverlay

from octopia.ids import ClientId
from octopia.protocol.messages import Deliver, UnadvertiseRequest, UnsubscribeRequest
from support import offer, say, want

CLIENTS = {"P0": "a.0", "P1": "b.1", "P2": "c.0", "S0": "a.1", "S1": "c.1", "S2": "b.0"}


class Crowd:
    """Clients that issue and withdraw requests while messages are on their way."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.overlay = TidOverlay("a-b, b-c", self.rng.choice((1, 2)))
        self.homes = {name: home for name, home in CLIENTS.items() if home in self.overlay.brokers}
        self.offers: dict[tuple[str, int], int] = {}
        self.interests: dict[tuple[str, int], int] = {}
        self.next_handle = 0

    def run(self, steps: int) -> None:
        links = self.overlay._links
        for _ in range(steps):
            if self.rng.random() < 0.25:
                self.act()
            else:
                self.overlay.carry(*self.rng.choice(links))
        self.overlay.settle()

    def act(self) -> None:
        client = self.rng.choice([*self.homes])
        issued, what, withdraw = (
            (self.offers, offer, UnadvertiseRequest)
            if client.startswith("P")
            else (self.interests, want, UnsubscribeRequest)
        )
        own = [handle for name, handle in issued if name == client]
        if own and self.rng.random() < 0.45:
            handle = self.rng.choice(own)
            del issued[client, handle]
            self.overlay.ask(client, self.homes[client], withdraw(handle))
        else:
            self.next_handle += 1
            low = issued[client, self.next_handle] = self.rng.randint(0, 3)
            self.overlay.ask(client, self.homes[client], what(self.next_handle, f"x BETWEEN {low} AND {low + 2}"))

    def expected_handles(self, client: str, x: int) -> list[int]:
        return sorted(
            handle for (name, handle), low in self.interests.items() if name == client and low <= x <= low + 2
        )


@pytest.mark.parametrize("seed", range(150))
def test_everything_settles_and_then_everybody_gets_everything_once(seed: int):
    crowd = Crowd(seed)
    crowd.run(steps=200)
    overlay = crowd.overlay
    overlay.check()
    assert {broker.table_sizes()["srt"] for broker in overlay.brokers.values()} == {len(crowd.offers)}
    for (publisher, _), low in crowd.offers.items():
        for x in range(low, low + 3):
            overlay.ask(publisher, crowd.homes[publisher], say(0, x=x))
            overlay.settle()
            for subscriber in overlay.homes:
                handles = [each.handles for each in overlay.received(subscriber) if isinstance(each, Deliver)]
                assert handles == [tuple(crowd.expected_handles(subscriber, x))] * bool(
                    crowd.expected_handles(subscriber, x)
                )
    for client, home in overlay.homes.items():
        overlay.brokers[home].detach(ClientId(client), 0.0)
    overlay.settle()
    assert all(not any(broker.table_sizes().values()) for broker in overlay.brokers.values())
