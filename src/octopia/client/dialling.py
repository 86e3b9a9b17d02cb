"""Reaching a broker: one attempt, what can be wrong with it, and how long to wait before the next."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable

from octopia.addresses import Address
from octopia.errors import BadFrame, ClosedByPeer, PeerError, ProtocolViolation, Unavailable
from octopia.protocol import CloseCode
from octopia.transport import Connection
from octopia.transport.connection import HANDSHAKE_S

DIAL_S = 3.0
"""How long the network may take to set up a connection before the next address is tried."""
BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 5.0

_PASSING = (CloseCode.DONE, CloseCode.SHUTDOWN, CloseCode.TIMEOUT)
"""Why a broker closes a connection that may be opened again."""


def backoff_s(attempt: int) -> float:
    """Return how long to wait before the next attempt: anything up to a bound that doubles (full jitter)."""
    return random.uniform(0.0, min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempt, 20)))


async def connect_to(address: Address, make: Callable[[], Connection]) -> Connection:
    """Set up a connection, or raise Unavailable with what is wrong."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DIAL_S):
            _, connection = await loop.create_connection(make, address.host, address.port)
    except TimeoutError:
        raise Unavailable(f"nothing answers at {address}: is the address right, and nothing in between?") from None
    except socket.gaierror:
        raise Unavailable(f"no machine is known as {address.host!r}: is the name right?") from None
    except OSError as error:
        problem = error.strerror or str(error)
        raise Unavailable(
            f"no broker answers at {address} ({problem}): is one running? Start one with `octopia up`"
        ) from None
    return connection


def is_final(reason: PeerError | None, *, is_first: bool) -> bool:
    """Tell whether it makes no sense to connect again.

    A name that is taken may be our own, held by a connection that the broker does not know to be broken.
    """
    if not isinstance(reason, ClosedByPeer):
        return False
    if reason.code == CloseCode.NAME_TAKEN:
        return is_first
    return reason.code not in _PASSING


def silence(address: Address) -> Unavailable:
    """Say that nothing came."""
    return Unavailable(
        f"something listens at {address}, but has not greeted within {HANDSHAKE_S:g} s: it may be no OctopiA broker"
    )


def explain(address: Address, reason: PeerError | None) -> Unavailable:
    """Say why a connection ended before the broker had greeted."""
    if isinstance(reason, BadFrame | ProtocolViolation):
        return Unavailable(f"what listens at {address} is no OctopiA broker: {reason}")
    if isinstance(reason, ClosedByPeer):
        return Unavailable(f"the broker at {address} does not take us now: {reason}")
    return Unavailable(f"what listens at {address} closed the connection without a word: it may be no OctopiA broker")
