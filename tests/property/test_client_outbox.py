"""The outbox of a client, compiled against plain Python, over random requests, credit, answers and losses."""

from __future__ import annotations

import random
from typing import Any

from octopia.client import outbox as compiled
from octopia.errors import InvalidPublication, RequestRefused
from octopia.link import LinkSettings, Session
from octopia.protocol import Ack, Frame, Grant, Hello
from octopia.protocol.messages import UnsubscribeRequest
from plain_modules import plain_module

PLAIN = plain_module("octopia.client.outbox")
STEPS = 60
WINDOW = 300


class Story:
    """An outbox with a session, and all that is told to tickets and entries, in order."""

    def __init__(self, module: Any):
        events: list[object] = []

        class Recorder(module.Ticket):  # type: ignore[misc, name-defined]
            is_abandoned = False

            def failed(self, index: int, error: Exception) -> None:
                events.append(("failed", self.last, index, type(error).__name__, str(error)))

            def settled(self) -> None:
                events.append(("settled", self.last, self.accepted, self.count, self.open))

        class Control(module.Entry):  # type: ignore[misc, name-defined]
            def __init__(self, handle: int):
                super().__init__()
                self.message = UnsubscribeRequest(handle)

            def acknowledged(self) -> None:
                events.append(("acknowledged", self.message.handle, self.number))

            def forgotten(self) -> None:
                events.append(("forgotten", self.message.handle))

        self.events, self.new_ticket, self.new_control = events, Recorder, Control
        self.outbox = module.Outbox()
        self.outbox.on_idle = lambda: events.append("idle")
        self.session = Session(1, LinkSettings())
        self.tickets: list[Any] = []
        self.grants = 0
        self.greet(incarnation=2)

    def greet(self, incarnation: int) -> None:
        self.session.connected(0.0)
        self.session.receive([Hello(incarnation, 0, 0, Grant(self.grants, WINDOW, ()))], 0.0)
        self.session.drain(0.0)

    def step(self, chance: random.Random) -> None:
        """Do one thing; both stories draw the same."""
        kind = chance.randrange(9)
        if kind < 3:
            self.publish(chance)
        elif kind == 3:
            self.outbox.put_control(self.new_control(chance.randrange(100)))
        elif kind == 4:
            self.write()
        elif kind == 5:
            self.acknowledge(chance.random())
        elif kind == 6 and self.outbox.open:
            sequence = chance.choice([*self.outbox.open, 10**6])
            self.events.append(self.outbox.settle(sequence, RequestRefused("it is odd")))
        elif kind == 7 and self.tickets:
            chance.choice(self.tickets).is_abandoned = True
        elif kind == 8 and chance.random() < 0.3:
            self.session.disconnected()
            self.events.append(self.outbox.written_publications())
            self.outbox.reset()
            self.grants = 0
            self.greet(incarnation=3 + len(self.events))
        self.events.append((self.outbox.backlog_bytes, self.outbox.departed, list(self.outbox.open)))

    def publish(self, chance: random.Random) -> None:
        self.tickets.append(ticket := self.new_ticket())
        items: list[Any] = [{"x": chance.randrange(100)} for _ in range(chance.randrange(12))]
        if chance.random() < 0.2:
            items.insert(
                chance.randrange(len(items) + 1), chance.choice([{}, {"x": None}, ({"x": 1},), 7, ({"x": 1}, "")])
            )
        if chance.random() < 0.3:
            items.append(({"x": 1}, bytes(chance.randrange(50))))
        iterator = iter(items)
        try:
            waiting = self.outbox.put_all(iterator, ticket, chance.choice((0, 100, 10_000)), lambda: 1.5)
            self.events.append((waiting, len(list(iterator)), ticket.count, ticket.last))
        except InvalidPublication as error:
            self.events.append(str(error))

    def write(self) -> None:
        self.outbox.pump(self.session, 0.0)
        self.events += [item for item in self.session.drain(0.0) if isinstance(item, Frame)]

    def acknowledge(self, share: float) -> None:
        """Accept a share of what was written, and return its credit."""
        kept = list(self.session._sender.kept)
        if not kept:
            return
        number = kept[int(share * (len(kept) - 1))].sequence
        placed = sum(each.message.size_bytes for each in kept if each.sequence <= number)
        self.grants += 1
        granted = self.session._sender.granted_bytes.get(0, 0) + placed
        self.session.receive([Ack(number, Grant(self.grants, WINDOW, ((0, granted),)))], 0.0)
        self.outbox.settle_up_to(self.session.acknowledged)


def test_every_step_has_the_same_effects_as_in_plain_python() -> None:
    told: set[str] = set()
    for seed in range(150):
        one, other = Story(compiled), Story(PLAIN)
        left, right = random.Random(seed), random.Random(seed)
        for _ in range(STEPS):
            one.step(left)
            other.step(right)
            assert one.events == other.events, f"seed {seed}"
        told |= {each[0] for each in one.events if isinstance(each, tuple) and isinstance(each[0], str)}
        told |= {"idle"} if "idle" in one.events else set()
    assert told == {"acknowledged", "failed", "forgotten", "idle", "settled"}
