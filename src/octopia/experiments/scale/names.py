"""The names of scales, series, systems and faults; importing them loads nothing that runs a study."""

from __future__ import annotations

import enum

from octopia.settings import Algorithm


class Scale(enum.StrEnum):
    """The size of the study: seconds for tests, minutes on a laptop, or as far as one machine goes."""

    TINY = "tiny"
    LAPTOP = "laptop"
    FULL = "full"


class Series(enum.StrEnum):
    """The variable that grows while the others stay."""

    REGIONS = "regions"
    CLUSTERS = "clusters"
    SUBSCRIPTIONS = "subscriptions"
    PUBLISHERS = "publishers"
    """The number of publishers that a subscription matches."""


class System(enum.StrEnum):
    """The systems that are compared; under a flood, every publication visits every broker."""

    STATIC = "static"
    ADAPTIVE = "adaptive"
    TID = "tid-static"
    FLOOD = "flood"

    @property
    def is_octopia(self) -> bool:
        """True for OctopiA."""
        return self in (System.STATIC, System.ADAPTIVE)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of its brokers; a flood has none."""
        return Algorithm(self.value)


class Source(enum.StrEnum):
    """The origin of a row: a run of the simulator, or formulas alone."""

    SIMULATED = "simulated"
    FORMULA = "formula"


class Fault(enum.StrEnum):
    """The faults whose cost is measured."""

    INNER_CRASH = "crash of an inner broker"
    EDGE_CRASH = "crash of an edge broker"
    ALINK_CUT = "cut of an aLink"
    ILINK_CUT = "cut of an iLink"
