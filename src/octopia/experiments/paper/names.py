"""The names of studies, scales, models, systems and algorithms; importing them loads nothing that runs a study."""

from __future__ import annotations

import enum

from octopia.settings import Algorithm, TidCopies


class Contender(enum.StrEnum):
    """An algorithm of the comparison, or a variant of one."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    ADAPTIVE = "adaptive"
    TID_STATIC = "tid-static"
    TID_DYNAMIC = "tid-dynamic"
    TID_DYNAMIC_PER_HOP = "tid-dynamic-per-hop"
    """TID-D with one copy per next hop, as in PADRES. It loses deliveries."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that brokers run."""
        return Algorithm.TID_DYNAMIC if self is Contender.TID_DYNAMIC_PER_HOP else Algorithm(self.value)

    @property
    def tid_copies(self) -> TidCopies:
        """The copies that TID-based routing sends over one link."""
        return TidCopies.PER_HOP if self is Contender.TID_DYNAMIC_PER_HOP else TidCopies.PER_TREE

    @property
    def may_miss(self) -> bool:
        """True if deliveries may be lost by design."""
        return self is Contender.TID_DYNAMIC_PER_HOP

    @classmethod
    def of(cls, algorithm: Algorithm, copies: TidCopies) -> Contender:
        """Return the contender that runs an algorithm with a setting."""
        if algorithm is Algorithm.TID_DYNAMIC and copies is TidCopies.PER_HOP:
            return cls.TID_DYNAMIC_PER_HOP
        return cls(algorithm.value)


STATIC, DYNAMIC, ADAPTIVE, TID_STATIC, TID_DYNAMIC, TID_DYNAMIC_PER_HOP = Contender
PAPER_ALGORITHMS = (STATIC, DYNAMIC, TID_STATIC, TID_DYNAMIC)
"""The algorithms that the paper compares."""
PAPER_OCTOPIA = (STATIC, DYNAMIC)
PAPER_TID = (TID_STATIC, TID_DYNAMIC)


class Scale(enum.StrEnum):
    """The size of a study: the smallest that shows anything, minutes on a laptop, or the paper's."""

    TINY = "tiny"
    LAPTOP = "laptop"
    PAPER = "paper"


class StudyName(enum.StrEnum):
    """The studies of the paper's evaluation."""

    PUBLISHERS = "publishers"
    SUBSCRIBERS = "subscribers"
    DELIVERY = "delivery"
    BURST = "burst"


class System(enum.StrEnum):
    """The two systems that the paper compares, and OctopiA with adaptive routing, which has other control messages."""

    OCTOPIA = "OctopiA"
    ADAPTIVE = "adaptive"
    TID = "TID"

    @classmethod
    def of(cls, algorithm: Algorithm) -> System:
        """Return the system of an algorithm."""
        if algorithm.is_tid:
            return cls.TID
        return cls.ADAPTIVE if algorithm is Algorithm.ADAPTIVE else cls.OCTOPIA


class Model(enum.StrEnum):
    """A model of what the paper leaves open: the limit of a broker's output, and the race that draws TID's trees."""

    LINKS = "links"
    BROKER_SENDER = "broker-sender"
    RACE_TREES = "race-trees"

    @property
    def profile(self) -> str:
        """The name of the simulator's profile."""
        return "paper" if self is Model.LINKS else f"paper-{self.value}"

    @property
    def description(self) -> str:
        """One sentence about the model."""
        return _DESCRIPTIONS[self]

    @classmethod
    def of_profile(cls, profile: str) -> Model:
        """Return the model of a profile; other profiles are variations of links."""
        return next((each for each in cls if each.profile == profile), cls.LINKS)

    def played_as(self, study: StudyName, *, is_tid: bool) -> Model:
        """Return the model whose runs hold for this one: what does not differ is not played twice.

        Control messages take no time at senders. Trees are TID's alone, and OctopiA's advertisements are in force
        before the first subscription.
        """
        if self is Model.BROKER_SENDER and study in (StudyName.PUBLISHERS, StudyName.SUBSCRIBERS):
            return Model.LINKS
        if self is Model.RACE_TREES and study is not StudyName.PUBLISHERS and not is_tid:
            return Model.LINKS
        return self


_DESCRIPTIONS = {
    Model.LINKS: "Every link has a sender of its own, which takes 3 ms per copy. Delays of links vary by 0.1 ms, so "
    "floods draw trees of shortest paths.",
    Model.BROKER_SENDER: "All links of a broker share one sender, which takes 0.75 ms per copy. Otherwise as links.",
    Model.RACE_TREES: "The delays of advertisements are exponentially distributed, so floods are races and TID's "
    "trees are longer than shortest paths. Otherwise as links.",
}
