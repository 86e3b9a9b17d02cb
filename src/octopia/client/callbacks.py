"""Functions of the program that the client calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from octopia.client.received import Received

_log = logging.getLogger(__name__)

Callback: TypeAlias = Callable[[Received], object]
"""A function that takes the publications of a subscription."""


def call(callback: Callable[..., object], *arguments: object) -> None:
    """Call a function of the program; log what it raises."""
    try:
        callback(*arguments)
    except Exception:
        _log.exception("a callback failed: callback=%r", callback)
