"""The address of a broker on the network, as overlay files and URLs give it."""

from __future__ import annotations

import dataclasses

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7400
"""The port of a broker's URL without a port, and of the first broker of an overlay file without ports."""


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; ``broker`` is the name of the broker expected there, or empty for any broker.

    ``host`` is a name, an IPv4 address or an IPv6 address without brackets. A broker that ``speaks_tls`` accepts no
    other connections.
    """

    host: str
    port: int = DEFAULT_PORT
    broker: str = ""
    speaks_tls: bool = False

    def __str__(self) -> str:
        """Return ``host:port``, with an IPv6 address in brackets: ``[::1]:7400``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def can_be_resolved(host: str) -> bool:
    """Return whether a host has the form of a name or an address: no part of a name is empty, or too long."""
    try:
        host.encode("idna")  # As the event loop will encode it.
    except UnicodeError:
        return False
    return True
