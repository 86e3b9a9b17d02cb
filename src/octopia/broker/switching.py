"""Changing the routing algorithm of a running broker.

Static and dynamic routing have the same tables, messages and queues: a broker that routes statically passes on all
copies of a dynamic one. So each broker may change at any time, independently of its neighbours.

Adaptive routing has its own tables and headers, so a broker that was started without it cannot begin: its neighbours
would take its copies for a violation of the protocol. One that was started with it keeps its tables and headers, and
changes its verdicts on links, which only rank ways that are all correct. As a static broker it takes all links that are
up as free. As a dynamic one it takes all aLinks that are up as free, and goes around congested iLinks. Dead links are
always avoided.

TID-based brokers do not change. A static one forgets which subscriptions have had a publication, and would deliver
duplicates of copies that dynamic brokers have sent.
"""

from __future__ import annotations

from octopia.broker.common import CommonState
from octopia.errors import UsageError
from octopia.settings import Algorithm

_CHOICES = {
    Algorithm.STATIC: (Algorithm.STATIC, Algorithm.DYNAMIC),
    Algorithm.DYNAMIC: (Algorithm.STATIC, Algorithm.DYNAMIC),
    Algorithm.ADAPTIVE: (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE),
}


def choices(started_with: Algorithm) -> tuple[Algorithm, ...]:
    """Return the algorithms that a broker may change to, by the one that it was started with."""
    return _CHOICES.get(started_with, (started_with,))


def switch(state: CommonState, algorithm: Algorithm) -> None:
    """Route by another algorithm from now on; copies that wait in queues stay as they are."""
    allowed = choices(state.settings.routing.algorithm)
    if algorithm not in allowed:
        raise UsageError(
            f"expected {' or '.join(allowed)} routing at a broker that was started with "
            f"{state.settings.routing.algorithm}, got {algorithm}: set it in the overlay file and restart the overlay"
        )
    state.algorithm = algorithm
