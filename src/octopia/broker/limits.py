"""The limits of a queue while its link is down (D10): beyond a size or an age, the oldest publications are dropped."""

from __future__ import annotations

from octopia.broker import adapting, losses
from octopia.broker.queues import OutputQueue
from octopia.broker.state import State
from octopia.protocol import Cause
from octopia.protocol.messages import Copy


def enforce(state: State) -> None:
    """Drop the oldest publications that wait for links that are down, until the rest is within the limits."""
    for peer in state.down:
        queue, dropped = state.queues[peer], list[Copy]()
        while len(queue) and _is_beyond_limits(state, queue):
            dropped.append(queue.drop_oldest())
            state.trace_drop(dropped[-1], peer, 1, "its link was down for too long")
        losses.dropped_for(state, peer, Cause.LINK_DOWN, dropped)
    if len(state.room):
        adapting.enforce(state)


def next_deadline_ms(state: State) -> float | None:
    """Return when a link that is down, or the oldest publication that waits for one, reaches the limit, or None."""
    since = [state.queues[peer].waited_since_ms() for peer in state.down]
    due = [each + state.settings.down_limit_ms for each in since if each is not None]
    overdue = [losses.overdue_at_ms(state, peer) for peer in state.down]
    return min((*due, *(each for each in overdue if each is not None)), default=None)


def _is_beyond_limits(state: State, queue: OutputQueue) -> bool:
    since_ms = queue.waited_since_ms()
    too_old = since_ms is not None and since_ms + state.settings.down_limit_ms <= state.now_ms
    return too_old or queue.bytes_waiting > state.settings.down_limit_bytes
