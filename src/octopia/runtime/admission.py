"""Admission of connections: counts of those that were accepted, against the limits of the overlay file.

The limit per address is for clients on other machines. Neighbours and operators that have greeted are never refused by
it, but a connection that has not greeted is unidentified and counts. A client that asks as an operator does is limited
as a client is. It does not apply to the broker's own machine,
where a program needs no connections to do harm.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from octopia.runtime.greeters import CLIENT_LIMITS, Greeter
from octopia.settings import Limit, ResourceLimits
from octopia.transport import Connection

if TYPE_CHECKING:
    import asyncio

    from octopia.runtime.server import BrokerServer

FAREWELLS_MAX = 1_000
"""The number of refused connections that get time to read the reason; others are dropped at once."""
DESKS_MAX = 16
"""The number of connections on which the clients of one token may ask a broker at a time."""


class Admission:
    """The accepted connections of a broker, by address."""

    def __init__(self, limits: ResourceLimits):
        self._limits = limits
        self.open: Counter[str] = Counter()
        self._greeting: dict[Connection, str] = {}
        self._greeting_from: Counter[str] = Counter()
        self.refused: set[Connection] = set()
        self._desks: Counter[str] = Counter()

    @property
    def greeting(self) -> int:
        """The number of connections that have not greeted yet."""
        return len(self._greeting)

    @property
    def most_from_one_address(self) -> int:
        """The highest number of connections that come from one address."""
        return max(self.open.values(), default=0)

    def arrived(self, connection: Connection) -> Limit | None:
        """Count a new connection, and return the limit that it exceeds, if any."""
        host = connection.peer_host
        self.open[host] += 1
        if not Limit.GREETING.allows(self._limits, self.greeting):
            return Limit.GREETING
        if not self._is_allowed(connection, self._greeting_from[host]):
            return Limit.ADDRESS
        self._greeting[connection] = host
        self._greeting_from[host] += 1
        return None

    def greeted(self, connection: Connection) -> None:
        """Note that both ends have identified themselves."""
        host = self._greeting.pop(connection, None)
        if host is not None:
            _count_down(self._greeting_from, host)

    def left(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self.greeted(connection)
        self.refused.discard(connection)
        _count_down(self.open, connection.peer_host)

    def allows_client(self, connection: Connection) -> bool:
        """Return whether a connection may be that of a client."""
        return self._is_allowed(connection, self.open[connection.peer_host] - 1)

    def refusal_of_desk(self, holder: str) -> str:
        """Return why the clients of a token may not ask on one more connection, or an empty string."""
        most = min(DESKS_MAX, self._limits.clients or DESKS_MAX)
        if self._desks[holder] < most:
            return ""
        return f"expected at most {most} connections with commands for the token {holder}, got one more: close some"

    def desk_opened(self, holder: str) -> None:
        """Count a connection on which a client of a token asks."""
        self._desks[holder] += 1

    def desk_closed(self, holder: str) -> None:
        """Forget a connection on which a client of a token asked."""
        _count_down(self._desks, holder)

    def _is_allowed(self, connection: Connection, others: int) -> bool:
        return connection.is_from_here or Limit.ADDRESS.allows(self._limits, others)


class AcceptedConnection(Connection):
    """A connection that the other end dialled."""

    def __init__(self, server: BrokerServer):
        super().__init__(Greeter(server), CLIENT_LIMITS, server.gate.tls_for_guest())
        self._broker = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection, unless there are too many."""
        super().connection_made(transport)
        limit = self._broker.admission.arrived(self)
        if limit is not None:
            self._broker.refuse_beyond(self, limit)

    def connection_lost(self, error: Exception | None) -> None:
        """End the connection."""
        self._broker.admission.left(self)
        super().connection_lost(error)


def _count_down(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
