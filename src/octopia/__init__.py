"""OctopiA: content-based publish/subscribe on structured cyclic overlays.

The names below are loaded when they are first used, so that ``import octopia`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octopia.client import Advertisement, Client, Received, Subscription, connect, connect_blocking
    from octopia.runtime.local import Overlay

__all__ = ["Advertisement", "Client", "Overlay", "Received", "Subscription", "connect", "connect_blocking"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = "octopia.runtime.local" if name == "Overlay" else "octopia.client"
        return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
