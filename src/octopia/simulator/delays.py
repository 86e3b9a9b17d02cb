"""Random delays of messages between brokers, by message kind.

A message travels for the delay of its link and a random *jitter*. Or a random *delay* is that of the whole hop: it
replaces the delay of the link, the jitter, and the time that a broker takes for any message. Either is drawn by a law
with a mean, for one kind of message or for all kinds without a law of their own.

With exponential delays a flood is a race without memory: at any moment each copy on its way is equally likely to arrive
next, whichever way it came.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Mapping

from octopia.protocol import MessageKind
from octopia.simulator.agenda import to_ns

ALL_KINDS = "all"
"""In place of a message kind: every kind without a law of its own."""

KEYS = (*(kind.value for kind in MessageKind), ALL_KINDS)
"""The names under which a profile may have a law."""


class Law(enum.StrEnum):
    """The laws of random delays: uniform between 0 and twice the mean, or exponential."""

    UNIFORM = "uniform"
    EXPONENTIAL = "exponential"


@dataclasses.dataclass(frozen=True, slots=True)
class RandomDelay:
    """A delay that is drawn by a law with a mean."""

    law: Law
    mean_ms: float

    def draw_ms(self, chance: random.Random) -> float:
        """Draw a delay."""
        if not self.mean_ms:
            return 0.0
        if self.law is Law.UNIFORM:
            return chance.uniform(0.0, 2.0 * self.mean_ms)
        return chance.expovariate(1.0 / self.mean_ms)


@dataclasses.dataclass(frozen=True, slots=True)
class Hop:
    """The delay of a hop: random, and in addition to the delay of the link unless it ``replaces_link``."""

    random: RandomDelay
    replaces_link: bool


class Hops:
    """The delays of hops by message kind.

    A law of the kind itself precedes a law for all kinds, and a ``delay`` precedes a ``jitter`` for the same kinds.
    """

    __slots__ = ("_by_kind", "_others")

    def __init__(self, jitter: Mapping[str, RandomDelay], delay: Mapping[str, RandomDelay], jitter_ms: float):
        hops = {kind: Hop(each, replaces_link=False) for kind, each in jitter.items()}
        hops |= {kind: Hop(each, replaces_link=True) for kind, each in delay.items()}
        plain = Hop(RandomDelay(Law.UNIFORM, jitter_ms / 2.0), replaces_link=False)
        self._others = hops.pop(ALL_KINDS, plain)
        self._by_kind = hops

    def draw_ns(self, kind: str, link_delay_ns: int, chance: random.Random) -> int:
        """Draw the delay of a message of this kind over a link; items that are no messages have another kind."""
        hop = self._by_kind.get(kind, self._others)
        drawn_ns = to_ns(hop.random.draw_ms(chance))
        return drawn_ns if hop.replaces_link else link_delay_ns + drawn_ns
