"""What studies and scales are called; commands know it without loading what runs them."""

from __future__ import annotations

import enum


class Scale(enum.StrEnum):
    """How large studies are: as small as shows something, minutes on a laptop, or the size of the paper."""

    TINY = "tiny"
    LAPTOP = "laptop"
    PAPER = "paper"


class Name(enum.StrEnum):
    """The studies."""

    PUBLISHERS = "publishers"
    SUBSCRIBERS = "subscribers"
    DELIVERY = "delivery"
    BURST = "burst"
