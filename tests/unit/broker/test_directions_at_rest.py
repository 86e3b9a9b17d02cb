"""Whatever clients, links and brokers do, host brokers learn the directions of every subscription in force.

Clients subscribe, unsubscribe, advertise and unadvertise. Messages move one at a time, in any order that links allow.
Links go down and up, brokers crash and restart. The oracle is computed from the requests in force and from the tree.

- At rest, each host broker holds exactly the directions from which its advertisements are wanted.
- At any time, the directions of a confirmed subscription are among those that host brokers count and hold (D5).
- At any time, all brokers of its cluster know a confirmed subscription, or have not heard the neighbour it is behind.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from types import ModuleType

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from links_support import Overlay, at, hosted, offer, want

from octopia.broker import advertising, answers, confirming
from octopia.broker.audience import audience_of
from octopia.content import intersects, parse_filter
from octopia.errors import InvariantBroken
from octopia.ids import ClientId
from octopia.protocol.directions import NOWHERE, Directions
from octopia.protocol.messages import Confirmed, Subscribe, UnadvertiseRequest, UnsubscribeRequest

OFFERS = ("x >= 0", "x < 5", "y > 0", "x > 3 AND y > 0")
INTERESTS = ("x > 5", "x < 3", "y > 2", "z > 0", "x > 1 OR y < 9")
OVERLAYS = (("a-b", 2), ("a-b, b-c", 2), ("a-b, b-c, b-d", 2), ("a-b, b-c", 3), ("a", 3))


class World:
    """An overlay with one client per broker, and the requests that are in force."""

    def __init__(self, tree: str, clusters: int, algorithm: str = "adaptive", **options: object):
        self.net = Overlay(tree, clusters, algorithm=algorithm, **options)
        self.names = sorted(self.net.brokers)
        self.links = sorted((str(low), str(high)) for low, high in (*self.net.scot.alinks, *self.net.scot.ilinks))
        self.down: dict[tuple[str, str], None] = {}
        self.crashed: dict[str, None] = {}
        self.offers: dict[tuple[str, int], str] = {}
        self.interests: dict[tuple[str, int], str] = {}
        self.confirmed: dict[tuple[str, int], None] = {}
        self.next_handle = 0

    def subscribe(self, broker: str, text: str) -> None:
        self.next_handle += 1
        self.interests[broker, self.next_handle] = text
        self.net.ask(f"C{broker[0]}{broker[2]}", broker, want(self.next_handle, text))

    def unsubscribe(self, chosen: int) -> None:
        if self.interests:
            key = sorted(self.interests)[chosen % len(self.interests)]
            del self.interests[key]
            self.confirmed.pop(key, None)
            self.net.ask(f"C{key[0][0]}{key[0][2]}", key[0], UnsubscribeRequest(key[1]))

    def advertise(self, broker: str, text: str) -> None:
        self.next_handle += 1
        self.offers[broker, self.next_handle] = text
        self.net.ask(f"C{broker[0]}{broker[2]}", broker, offer(self.next_handle, text))

    def unadvertise(self, chosen: int) -> None:
        if self.offers:
            key = sorted(self.offers)[chosen % len(self.offers)]
            del self.offers[key]
            self.net.ask(f"C{key[0][0]}{key[0][2]}", key[0], UnadvertiseRequest(key[1]))

    def move(self, chosen: int) -> None:
        """Carry one message over a link that has any."""
        ready = [link for link in self.net.open_links if not self.net[link[0]].state.queues[at(link[1])].is_empty]
        if ready:
            self.net.step(*ready[chosen % len(ready)])

    def cut(self, chosen: int) -> None:
        link = self.links[chosen % len(self.links)]
        if link not in self.down and not any(end in self.crashed for end in link):
            self.down[link] = None
            self.net.cut(*link)

    def heal(self, chosen: int) -> None:
        whole = [link for link in self.down if not any(end in self.crashed for end in link)]
        if whole:
            link = whole[chosen % len(whole)]
            del self.down[link]
            self.net.heal(*link)

    def crash(self, chosen: int) -> None:
        name = self.names[chosen % len(self.names)]
        if name in self.crashed:
            return
        self.crashed[name] = None
        self.net.crash(name)
        for known in (self.offers, self.interests, self.confirmed):
            for key in [key for key in known if key[0] == name]:
                del known[key]  # type: ignore[attr-defined]

    def restart(self, chosen: int) -> None:
        if self.crashed:
            name = sorted(self.crashed)[chosen % len(self.crashed)]
            del self.crashed[name]
            self.net.restart(name)

    def note_confirmations(self) -> None:
        for name in self.net.brokers:
            if ClientId(f"C{name[0]}{name[2]}") not in self.net[name].state.clients:
                continue
            for reply in self.net.received(f"C{name[0]}{name[2]}", name):
                is_subscription = isinstance(reply, Confirmed) and reply.request == Subscribe.kind
                if is_subscription and (name, reply.number) in self.interests:
                    self.confirmed[name, reply.number] = None

    def direction(self, seen_from: str, host: str) -> str:
        """Return the direction in which a broker of the same cluster lies."""
        if seen_from == host:
            return ""
        graph, source = self.net.scot, at(seen_from)
        for neighbour in graph.neighbourhood(source).primary_neighbours:
            behind, reached = [(neighbour, source)], []
            while behind:
                here, before = behind.pop()
                reached.append(str(here))
                behind += [(each, here) for each in graph.neighbourhood(here).primary_neighbours if each != before]
            if host in reached:
                return neighbour.region
        raise AssertionError(f"{host} cannot be reached from {seen_from}")

    def owed(self, host: str, text: str, interests: dict[tuple[str, int], str]) -> dict[int, Directions]:
        """Return the directions of each other cluster in which these subscriptions intersect an advertisement."""
        found: dict[int, Directions] = {}
        for secondary in self.net.scot.neighbourhood(at(host)).secondary_neighbours:
            found[secondary.cluster] = Directions.of(
                self.direction(str(secondary), name)
                for (name, _), interest in interests.items()
                if at(name).cluster == secondary.cluster and intersects(parse_filter(text), parse_filter(interest))
            )
        return found

    def check_confirmed(self) -> None:
        """Check that nothing confirmed is missing in PRTs, or in what host brokers count and hold."""
        in_force = {key: self.interests[key] for key in self.confirmed}
        for (host, handle), (name, broker) in itertools.product(in_force, self.net.brokers.items()):
            if at(name).cluster == at(host).cluster:
                named = self.net[host].state.clients[ClientId(f"C{host[0]}{host[2]}")].subscriptions[handle]
                unheard = [each.region for each in broker.state.unheard_neighbours]
                assert named in broker.state.prt or self.direction(name, host) in unheard
        for (host, handle), text in self.offers.items():
            audience = audience_of(self.net[host].state, [hosted(self.net[host], f"C{host[0]}{host[2]}", handle)])
            for cluster, directions in self.owed(host, text, in_force).items():
                assert not directions - audience.counted.get(cluster, NOWHERE)
                held = audience.held.get(cluster)
                assert held is None or not directions - held

    def rest(self) -> None:
        """Let everything heal and settle, and compare what is held with what is in force."""
        while self.crashed:
            self.restart(0)
        while self.down:
            self.heal(0)
        self.settle()
        for (host, handle), text in self.offers.items():
            known = hosted(self.net[host], f"C{host[0]}{host[2]}", handle)
            assert not known.pending
            audience = audience_of(self.net[host].state, [known])
            owed = self.owed(host, text, self.interests)
            assert audience.held == owed
            assert audience.counted == {cluster: each for cluster, each in owed.items() if each}
            assert audience.targets == sum(1 << cluster for cluster, each in owed.items() if each)
        self.note_confirmations()
        assert self.confirmed.keys() == self.interests.keys()

    def settle(self) -> None:
        self.net.settle()
        while any(broker.state.backlog for broker in self.net.brokers.values()):
            for broker in self.net.brokers.values():
                broker.wake(self.net.now_ms)
            self.net.settle()


class Histories(RuleBasedStateMachine):
    """Any history of a small overlay."""

    @initialize(overlay=st.sampled_from(OVERLAYS))
    def start(self, overlay: tuple[str, int]) -> None:
        self.world = World(*overlay)

    @rule(which=st.integers(0, 99), text=st.sampled_from(INTERESTS))
    def subscribe(self, which: int, text: str) -> None:
        self._at_live(which, lambda name: self.world.subscribe(name, text))

    @rule(which=st.integers(0, 99), text=st.sampled_from(OFFERS))
    def advertise(self, which: int, text: str) -> None:
        self._at_live(which, lambda name: self.world.advertise(name, text))

    @rule(which=st.integers(0, 99))
    def unsubscribe(self, which: int) -> None:
        self.world.unsubscribe(which)

    @rule(which=st.integers(0, 99))
    def unadvertise(self, which: int) -> None:
        self.world.unadvertise(which)

    @rule(which=st.lists(st.integers(0, 99), min_size=1, max_size=12))
    def move(self, which: list[int]) -> None:
        for each in which:
            self.world.move(each)

    @rule(which=st.integers(0, 99))
    def cut(self, which: int) -> None:
        self.world.cut(which)

    @rule(which=st.integers(0, 99))
    def heal(self, which: int) -> None:
        self.world.heal(which)

    @precondition(lambda self: len(self.world.crashed) < 2)
    @rule(which=st.integers(0, 99))
    def crash(self, which: int) -> None:
        self.world.crash(which)

    @rule(which=st.integers(0, 99))
    def restart(self, which: int) -> None:
        self.world.restart(which)

    @rule()
    def rest(self) -> None:
        self.world.rest()

    @invariant()
    def keeps_what_it_confirmed(self) -> None:
        if hasattr(self, "world"):
            self.world.note_confirmations()
            self.world.check_confirmed()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.rest()

    def _at_live(self, which: int, act: Callable[[str], None]) -> None:
        live = [name for name in self.world.names if name not in self.world.crashed]
        if live:
            act(live[which % len(live)])


Histories.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase


def play(world: World, chance: random.Random, steps: int) -> None:
    """Take random steps, mostly moves, and check after each."""
    for _ in range(steps):
        which = chance.randrange(1000)
        live = [name for name in world.names if name not in world.crashed]
        match chance.choices(range(9), (8, 6, 5, 2, 60, 3, 5, 1, 4))[0]:
            case 0 if live:
                world.subscribe(live[which % len(live)], chance.choice(INTERESTS))
            case 1:
                world.unsubscribe(which)
            case 2 if live:
                world.advertise(live[which % len(live)], chance.choice(OFFERS))
            case 3:
                world.unadvertise(which)
            case 5:
                world.cut(which)
            case 6:
                world.heal(which)
            case 7:
                world.crash(which)
            case 8:
                world.restart(which)
            case _:
                world.move(which)
        world.note_confirmations()
        world.check_confirmed()
    world.rest()


def play_seeds(overlay: tuple[str, int], seeds: int, slice_max: int = 500) -> None:
    for seed in range(seeds):
        play(World(*overlay, slice_max=slice_max), random.Random(seed), 400)


@pytest.mark.parametrize("slice_max", [1, 500])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_long_histories(overlay: tuple[str, int], slice_max: int) -> None:
    play_seeds(overlay, 4, slice_max)


def nothing(*_: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("module", "function", "planted"),
    [
        (advertising, "drop_answers", nothing),
        (answers, "clear", nothing),
        (answers, "unknown", lambda state: NOWHERE),
        (confirming, "_await_bits", nothing),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_planted_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, planted: Callable[..., object]
) -> None:
    monkeypatch.setattr(module, function, planted)
    with pytest.raises((AssertionError, InvariantBroken)):
        play_seeds(("a-b", 2), 50)
