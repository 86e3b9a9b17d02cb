"""Links that a profile limits by credit: no window is ever exceeded, and everything drains."""

from __future__ import annotations

import dataclasses

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octopia.ids import BrokerId
from octopia.node import Node
from octopia.overlay import Scot, parse_tree
from octopia.protocol.messages import ClientReply, Deliver
from octopia.settings import Algorithm
from octopia.simulator.profiles import UNIT, Profile, SenderScope
from octopia.simulator.world import Environment, World
from support import make_settings, offer, say, want

LARGEST_BYTES = 100
"""More than any publication of this test takes."""


class Deliveries:
    """An observer that keeps what clients receive."""

    def __init__(self) -> None:
        self.received: list[tuple[str, object]] = []

    def on_fact(self, *_: object) -> None:
        pass

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        if isinstance(reply, Deliver):
            self.received.append((client, reply.publication.attributes["x"]))

    def on_delivered(self, *_: object) -> None:
        pass


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Draw a profile with busy brokers, a small window and any sender."""
    return dataclasses.replace(
        UNIT,
        message_us=float(draw(st.sampled_from([100, 1500]))),
        send_us=float(draw(st.sampled_from([0, 700]))),
        sender=draw(st.sampled_from(list(SenderScope))),
        machines=draw(st.integers(0, 2)),
        credit_kib=draw(st.sampled_from([0.05, 0.3, 2.0])),
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(profiles(), st.sampled_from(list(Algorithm)), st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_no_window_is_exceeded_and_everything_drains(profile: Profile, algorithm: Algorithm, pauses: list[int]) -> None:
    heard = Deliveries()
    world = World(Scot(parse_tree("a-b, b-c"), 2), make_settings(algorithm.value), Environment(profile), [heard])
    for number, broker in enumerate(("a.0", "b.1")):
        world.request(world.attach(f"P{number}", BrokerId.parse(broker)), offer(0, "x >= 0"))
        world.run()
    for number, broker in enumerate(("c.0", "a.1", "b.0")):
        world.request(world.attach(f"S{number}", BrokerId.parse(broker)), want(0, "x >= 0"))
        world.run()
    for number, pause in enumerate(pauses):
        for publisher in range(2):
            world.request(f"P{publisher}", say(number, x=2 * number + publisher))
        step_for(world, pause)
    while world.agenda.foreground or world.links.unsettled() is not None:
        step(world)
    assert sorted(heard.received) == [(f"S{each}", x) for each in range(3) for x in range(2 * len(pauses))]
    for node in world.nodes:
        assert not any(node.broker.waits_for(peer) for peer in node.links)
        assert all(link.session is not None and not link.session.owes_credit for link in node.links.values())


def step_for(world: World, steps: int) -> None:
    for _ in range(steps):
        if world.agenda.foreground:
            step(world)


def step(world: World) -> None:
    world.agenda.step()
    for node in world.nodes:
        assert_within_window(node, round(world.profile.credit_kib * 1024))


def assert_within_window(node: Node, window_bytes: int) -> None:
    """One frame of a class may exceed the grant, however large; the next waits."""
    for link in node.links.values():
        assert link.session is not None
        sender = link.session._sender
        for traffic_class, sent_bytes in sender.sent_bytes.items():
            used_bytes = sent_bytes - sender.granted_bytes.get(traffic_class, 0)
            assert used_bytes < window_bytes + LARGEST_BYTES
