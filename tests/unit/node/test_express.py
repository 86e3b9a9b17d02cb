"""The express way of publications against the ordinary one: the same writes, states, counters and facts.

Two nodes get the same random inputs. One may use the express way, the other never does.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from node_support import ONE_BYTE, Rig

from octopia.broker import Detail, OctopiaBroker, placing
from octopia.broker.state import State
from octopia.ids import Peer
from octopia.link import LinkSettings
from octopia.protocol import ClusterIndexVector
from octopia.protocol.messages import CivSet, Subscribe, Unsubscribe, Version
from octopia.settings import Algorithm
from support import at, offer, publish, say, subscribe, want

NEIGHBOURS = ("a.0", "c.0", "b.1", "b.2")
CLIENTS = ("P", "Q")
FILTERS = ("x > 2", "x < 4", "x BETWEEN 1 AND 3", "y = 'one'", "x > 0 OR y = 'two'", "x >= 9007199254740993")
OFFERS = ("x > 0", "x > 2 AND y IS NOT NULL")
ROOMY = LinkSettings(window_bytes=2_000, heartbeat_ms=100.0, suspicion_ms=1e9, fences=True)

_is_way_free, _outlet = placing._is_way_free, OctopiaBroker.outlet


class Pair:
    """Two rigs that are told the same."""

    def __init__(self, seed: int, algorithm: Algorithm):
        self.chance = random.Random(seed)
        options: dict[str, Any] = {
            "algorithm": algorithm.value,
            "queue_capacity": self.chance.choice((0, 2, 5)),
            "tau": self.chance.choice((0.5, 3.0, 1e9)),
            "detail": self.chance.choice(tuple(Detail)),
        }
        far_links = self.chance.choice((ONE_BYTE, ROOMY, ROOMY))
        self.rigs = [Rig(far_links=far_links, **options) for _ in range(2)]
        self.number = 0
        self.subscriptions: list[Subscribe] = []
        self.down: list[str] = []
        for rig in self.rigs:
            rig.meet(*NEIGHBOURS)
            for name in CLIENTS:
                rig.join(name, *[offer(handle, text) for handle, text in enumerate(OFFERS)], want(0, "x > 3"))
            rig.settle()

    @property
    def ordinary(self) -> State:
        """The state of the broker that does not use the express way."""
        return self.rigs[1].broker.state

    def step(self) -> None:
        """Give both the same random input, and compare them."""
        action = self.chance.choice(("publish", "publish", "relay", "relay", "relay", "change", "cut", "stick", "rest"))
        getattr(self, f"_{action}")()
        self.compare()

    def attributes(self) -> dict[str, Any]:
        """Draw the attributes of a publication; some integers are not doubles."""
        made: dict[str, Any] = {"x": self.chance.choice((0, 1, 2, 3, 4, 5, 2**53 + 1))}
        if self.chance.random() < 0.5:
            made["y"] = self.chance.choice(("one", "two", "três"))
        return made

    def _publish(self) -> None:
        name = self.chance.choice(CLIENTS)
        said = []
        for _ in range(self.chance.randrange(1, 6)):
            self.number += 1
            said.append(say(self.number, **self.attributes()))
        for rig in self.rigs:
            rig.tell(name, *said)

    def _relay(self) -> None:
        name = self.chance.choice(NEIGHBOURS)
        copies = []
        for _ in range(self.chance.randrange(1, 6)):
            self.number += 1
            civ = None
            if self.chance.random() < 0.2 and self.ordinary.settings.routing.algorithm is Algorithm.DYNAMIC:
                civ = ClusterIndexVector(self.chance.choice((0b001, 0b010, 0b111)), 3)
            copies.append(publish(name, self.number, civ, self.chance.choice((1, 2, 255)), **self.attributes()))
        for rig in self.rigs:
            rig.tell(name, *copies)

    def _change(self) -> None:
        if self.subscriptions and self.chance.random() < 0.4:
            gone = self.subscriptions.pop(self.chance.randrange(len(self.subscriptions)))
            for rig in self.rigs:
                rig.tell(str(gone.id.host_broker), Unsubscribe(gone.id))
        elif self.chance.random() < 0.3:
            advertisement = next(entry for entry in self.ordinary.clt if entry.is_hosted_here)
            self.number += 1
            for rig in self.rigs:
                rig.tell("b.1", CivSet((advertisement.id,), Version(1, self.number)))
        else:
            self.number += 1
            made = subscribe(self.chance.choice(("a.0", "c.0")), self.number, self.chance.choice(FILTERS))
            self.subscriptions.append(made)
            for rig in self.rigs:
                rig.tell(str(made.id.host_broker), made)

    def _cut(self) -> None:
        """Cut a link, for a while or for a moment, or connect one that was cut."""
        name = self.chance.choice(NEIGHBOURS)
        is_short = self.chance.random() < 0.5
        for rig in self.rigs:
            if name in self.down:
                rig.connect(name)
            else:
                rig.cut(name)
                if is_short:
                    rig.connect(name)
        if name in self.down:
            self.down.remove(name)
        elif not is_short:
            self.down.append(name)

    def _stick(self) -> None:
        name = self.chance.choice(NEIGHBOURS)
        for rig in self.rigs:
            if name in rig.stuck:
                rig.unstick(name)
            else:
                rig.stuck[name] = None
                rig.heard[name] = []

    def _rest(self) -> None:
        for rig in self.rigs:
            rig.now_ms += 60.0
            rig.settle()

    def compare(self) -> None:
        """Compare what both write now, and what they are afterwards."""
        one, other = self.rigs
        mine, theirs = one.node.ready(one.now_ms), other.node.ready(other.now_ms)
        assert mine.writes == theirs.writes
        assert one.broker.fingerprint() == other.broker.fingerprint()
        assert one.broker.counters == other.broker.counters
        assert one.node.drain_facts() == other.node.drain_facts()
        one.broker.check()
        for rig, ready in ((one, mine), (other, theirs)):
            assert not ready.failures
            for peer, items in ready.writes:
                rig.reach(str(peer), items)  # type: ignore[arg-type]


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """Return a list of states whose brokers do not use the express way."""
    states: list[State] = []

    def is_way_free(state: State, source: Peer) -> bool:
        return not any(state is each for each in states) and _is_way_free(state, source)

    def outlet(broker: OctopiaBroker, peer: Any, now_ms: float) -> Any:
        found = _outlet(broker, peer, now_ms)
        return None if any(broker.state is each for each in states) else found

    monkeypatch.setattr(placing, "_is_way_free", is_way_free)
    monkeypatch.setattr(OctopiaBroker, "outlet", outlet)
    return states


def play(seeds: range, algorithm: Algorithm, ordinary: list[State]) -> None:
    """Run pairs for a while."""
    for seed in seeds:
        pair = Pair(seed, algorithm)
        ordinary[:] = [pair.ordinary]
        for step in range(40):
            try:
                pair.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}") from error


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_both_ways_do_the_same(algorithm: Algorithm, ordinary: list[State]) -> None:
    play(range(25), algorithm, ordinary)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 5_000, 500))
@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_both_ways_do_the_same_very_often(algorithm: Algorithm, first: int, ordinary: list[State]) -> None:
    play(range(first, first + 500), algorithm, ordinary)


def test_the_express_way_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a comparison of both would prove nothing."""
    passed: list[int] = []
    place = placing._place
    monkeypatch.setattr(placing, "_place", lambda *arguments: passed.append(1) or place(*arguments))
    rig = Rig(algorithm="dynamic")
    rig.meet(*NEIGHBOURS)
    rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
    rig.tell("a.0", *(publish("a.0", number, x=1) for number in range(3)))
    rig.settle()
    assert len(rig.told("c.0")) >= 3
    assert not passed
    assert at("c.0") in rig.broker.state.queues
