"""Attempts to reach a broker: one connection, the reason why it failed, and the delay before the next attempt."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable

from octopia.addresses import Address
from octopia.errors import BadFrame, ClosedByPeer, PeerError, ProtocolViolation, TlsFailure, Unavailable
from octopia.protocol import CloseCode
from octopia.transport import Connection
from octopia.transport.connection import HANDSHAKE_S

ATTEMPT_S = 3.0
"""The time limit for setting up one connection; then the next address is tried."""
BACKOFF_FIRST_S = 0.05
BACKOFF_FACTOR = 4.0
BACKOFF_MAX_S = 3.0

_PASSING = (
    CloseCode.DONE,
    CloseCode.SHUTDOWN,
    CloseCode.TIMEOUT,
    CloseCode.INTERNAL,
    CloseCode.LIMIT,
    CloseCode.BUSY,
)
"""The close codes after which a client may connect again."""


def backoff_s(attempt: int) -> float:
    """Return the delay before the next attempt: a random time in the upper half of a range that grows.

    The first range is whole, so that a client whose connection broke is back at once. The others grow fast: all clients
    of a broker that is gone try again, and an attempt costs as much as a hundred deliveries.
    """
    longest_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * BACKOFF_FACTOR ** min(attempt, 20))
    return random.uniform(longest_s / 2.0 if attempt else 0.0, longest_s)


def busy_s(error: PeerError | None) -> float:
    """Return the delay that a busy broker asks for, a little longer at random, or 0 if it is not busy."""
    if not isinstance(error, ClosedByPeer) or error.code != CloseCode.BUSY:
        return 0.0
    return random.uniform(1.0, 1.25) * error.retry_ms / 1000.0


async def connect_to(address: Address, make: Callable[[], Connection]) -> Connection:
    """Set up a connection, or raise Unavailable with the reason."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(ATTEMPT_S):
            _, connection = await loop.create_connection(make, address.host, address.port)
    except TimeoutError:
        raise Unavailable(f"nothing answers at {address}: is the address right, or is a firewall in between?") from None
    except (socket.gaierror, UnicodeError):
        raise Unavailable(f"the host name {address.host!r} cannot be resolved: is it right?") from None
    except OSError as error:
        problem = error.strerror or str(error)
        raise Unavailable(
            f"no broker answers at {address} ({problem}): is one running? Start one with `octopia up`"
        ) from None
    return connection


def is_final(reason: PeerError | None, *, is_first: bool) -> bool:
    """Return whether the client must not connect again.

    After the first connection, a name that is taken may be the client's own: the broker may still hold a connection
    that it does not know to be broken.
    """
    if not isinstance(reason, ClosedByPeer):
        return False
    if reason.code == CloseCode.NAME_TAKEN:
        return is_first
    return reason.code not in _PASSING


def is_other_broker(reason: Exception | None) -> bool:
    """Return whether a broker has refused the client because the client asks for another broker."""
    return isinstance(reason, ClosedByPeer) and reason.code == CloseCode.WRONG_BROKER


def silence(address: Address) -> Unavailable:
    """Return the error for a server that sends no greeting."""
    return Unavailable(
        f"the server at {address} has not sent a greeting within {HANDSHAKE_S:g} s: it may not be an OctopiA broker"
    )


def explain(address: Address, reason: PeerError | None) -> Unavailable:
    """Return the error for a connection that ended before the greeting."""
    if isinstance(reason, BadFrame | ProtocolViolation):
        return Unavailable(f"the server at {address} is not an OctopiA broker: {reason}")
    if isinstance(reason, TlsFailure):
        return Unavailable(f"no TLS connection with {address}: {reason}")
    if isinstance(reason, ClosedByPeer):
        return Unavailable(f"the broker at {address} does not accept clients now: {reason}")
    return Unavailable(
        f"the server at {address} closed the connection before its greeting: it may not be an OctopiA broker"
    )
