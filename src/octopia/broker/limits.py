"""What waits for a link that is down waits within limits (D10): too much or too old, and the oldest is dropped."""

from __future__ import annotations

from octopia.broker.queues import OutputQueue
from octopia.broker.state import State
from octopia.protocol.messages import Publish


def enforce(state: State) -> None:
    """Drop the oldest of what waits for links that are down until the rest is within the limits."""
    for peer in state.down:
        queue = state.queues[peer]
        while len(queue) and _is_beyond_limits(state, queue):
            dropped = queue.drop_oldest()
            assert isinstance(dropped, Publish)
            state.counters.dropped_while_down += 1
            state.trace_drop(dropped, peer, 1, "its link was down for too long")


def next_deadline_ms(state: State) -> float | None:
    """Return when the oldest publication for a link that is down has waited long enough, or None."""
    since = [state.queues[peer].waited_since_ms() for peer in state.down]
    due = [each + state.settings.down_limit_ms for each in since if each is not None]
    return min(due, default=None)


def _is_beyond_limits(state: State, queue: OutputQueue) -> bool:
    since_ms = queue.waited_since_ms()
    too_old = since_ms is not None and since_ms + state.settings.down_limit_ms <= state.now_ms
    return too_old or queue.bytes_waiting > state.settings.down_limit_bytes
