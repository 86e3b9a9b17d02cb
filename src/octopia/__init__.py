"""OctopiA: content-based publish/subscribe on structured cyclic overlays.

This is the public interface. Names are loaded when they are first used, so that ``import octopia`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octopia.client import (
        Advertisement,
        BlockingAdvertisement,
        BlockingClient,
        BlockingSubscription,
        Client,
        Received,
        Subscription,
        connect,
        connect_blocking,
    )
    from octopia.content import Disjunction as Filter
    from octopia.content import Publication
    from octopia.errors import (
        BadFrame,
        ClosedByPeer,
        FilterTooLarge,
        InternalError,
        InvalidFile,
        InvalidFilter,
        InvalidOverlay,
        InvalidPublication,
        InvariantBroken,
        NetworkError,
        NotConfirmed,
        OctopiaError,
        OutcomeUnknown,
        PeerError,
        ProtocolViolation,
        RequestRefused,
        SlowSubscriber,
        TimedOut,
        Unavailable,
        UnknownBroker,
        UsageError,
    )
    from octopia.protocol import Overflow
    from octopia.runtime.local import Overlay
    from octopia.settings import Algorithm, RoutingSettings

    __version__: str

__all__ = [
    "Advertisement",
    "Algorithm",
    "BadFrame",
    "BlockingAdvertisement",
    "BlockingClient",
    "BlockingSubscription",
    "Client",
    "ClosedByPeer",
    "Filter",
    "FilterTooLarge",
    "InternalError",
    "InvalidFile",
    "InvalidFilter",
    "InvalidOverlay",
    "InvalidPublication",
    "InvariantBroken",
    "NetworkError",
    "NotConfirmed",
    "OctopiaError",
    "OutcomeUnknown",
    "Overflow",
    "Overlay",
    "PeerError",
    "ProtocolViolation",
    "Publication",
    "Received",
    "RequestRefused",
    "RoutingSettings",
    "SlowSubscriber",
    "Subscription",
    "TimedOut",
    "Unavailable",
    "UnknownBroker",
    "UsageError",
    "__version__",
    "connect",
    "connect_blocking",
]

_HOMES = {
    "client": (
        "Advertisement",
        "BlockingAdvertisement",
        "BlockingClient",
        "BlockingSubscription",
        "Client",
        "Received",
        "Subscription",
        "connect",
        "connect_blocking",
    ),
    "content": ("Filter", "Publication"),
    "protocol": ("Overflow",),
    "runtime.local": ("Overlay",),
    "settings": ("Algorithm", "RoutingSettings"),
}
"""The modules of all names except errors and the version."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version(__name__)
    else:
        from importlib import import_module

        home = next((module for module, names in _HOMES.items() if name in names), "errors")
        value = getattr(import_module(f"{__name__}.{home}"), "Disjunction" if name == "Filter" else name)
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
