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
        Gap,
        Received,
        Subscription,
        connect,
        connect_blocking,
    )
    from octopia.content import Disjunction as Filter
    from octopia.content import Publication
    from octopia.errors import (
        AccessDenied,
        BadFrame,
        BrokenCredentials,
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
        TlsFailure,
        Unavailable,
        UnknownBroker,
        UsageError,
    )
    from octopia.protocol import Cause, Overflow
    from octopia.runtime.local import Overlay
    from octopia.settings import Algorithm, RoutingSettings

    __version__: str

__all__ = ["Algorithm", "Filter", "Overflow", "Overlay", "Publication", "RoutingSettings", "__version__"]
__all__ += ["Advertisement", "Cause", "Client", "Gap", "Received", "Subscription", "connect"]
__all__ += ["BlockingAdvertisement", "BlockingClient", "BlockingSubscription", "connect_blocking"]
__all__ += ["InternalError", "InvariantBroken", "OctopiaError"]
__all__ += ["UsageError", "InvalidFilter", "FilterTooLarge", "InvalidPublication", "RequestRefused"]
__all__ += ["BrokenCredentials", "InvalidFile", "InvalidOverlay", "UnknownBroker"]
__all__ += ["PeerError", "AccessDenied", "BadFrame", "ClosedByPeer", "ProtocolViolation", "TlsFailure"]
__all__ += ["NetworkError", "NotConfirmed", "OutcomeUnknown", "SlowSubscriber", "TimedOut", "Unavailable"]

_MODULES = ("errors", "settings", "content", "protocol", "client", "runtime.local")
"""The modules of these names, each before those that import it."""


if not TYPE_CHECKING:  # Type checkers then report unknown names.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        if name == "__version__":
            return import_module("importlib.metadata").version(__name__)
        if name == "Filter":
            return import_module("octopia.content").Disjunction
        modules = (import_module(f"octopia.{each}") for each in _MODULES)
        value = next(getattr(module, name) for module in modules if hasattr(module, name))
        return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted(__all__)
