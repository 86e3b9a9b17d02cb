"""The causes for which publications are lost."""

from __future__ import annotations

import enum


class Cause(enum.StrEnum):
    """The reason why publications were lost, or may have been."""

    LINK_DOWN = "link_down"
    """They waited for a link that was down for too long, or were too many; or a neighbour is gone for as long."""
    UNREACHABLE_BROKER = "unreachable_broker"
    """They were for the clients of a broker that could not be reached for too long; it may have none that want them."""
    UNACKNOWLEDGED = "unacknowledged"
    """They were written to a broker that lost its state before it acknowledged them."""
    RESTART = "restart"
    """A broker lost its state, and with it all publications that waited there."""
    SHUTDOWN = "shutdown"
    """A broker stopped before it could pass on everything that it had accepted."""
    GRACE = "grace"
    """A recovering broker accepted publications before it knew all subscriptions of its cluster again."""
    HOP_LIMIT = "hop_limit"
    """They were beyond the hop limit."""
    FAILED_BATCH = "failed_batch"
    """A broker could not handle what arrived together with them."""
    SLOW_CLIENT = "slow_client"
    """Their subscriber reads too slowly."""
    CLIENT_GONE = "client_gone"
    """Their subscriber lost its connection and did not return in time."""
    NEW_SESSION = "new_session"
    """A client reached a broker that does not know it; used only inside the client."""

    # Losses are counted by cause, and the default hash of enums is a Python function.
    __hash__ = str.__hash__
