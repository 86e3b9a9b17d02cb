"""The names of studies, scales and systems; importing them loads nothing that runs a study."""

from __future__ import annotations

import enum

from octopia.settings import Algorithm

ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.TID_STATIC, Algorithm.TID_DYNAMIC)
"""The algorithms that the paper compares."""


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
    """The two systems that the paper compares."""

    OCTOPIA = "OctopiA"
    TID = "TID"
