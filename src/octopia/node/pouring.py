"""The way of publications from an output queue into the session of its link.

Plain Python that Cython compiles (``pouring.pxd`` has the C types): every copy of a publication passes here.
"""

from __future__ import annotations

from typing import Any

from octopia.broker.queues import OutputQueue
from octopia.link.flow import Sender


def pour(queue: OutputQueue, sender: Sender, outbox: list[Any], now_ms: float, most: int) -> int:
    """Move up to ``most`` publications within the credit of the link, oldest first, and return their number."""
    if not sender.window_bytes:
        return 0
    exhausted = sender.exhausted
    lane = queue._oldest_lane(~exhausted)
    count = rerouted = 0
    waiting = queue._size
    while lane is not None and count < most:
        sender.send(queue._remove_oldest(lane), outbox)
        count += 1
        rerouted += lane.is_rerouted
        if exhausted is not sender.exhausted or len(queue._lanes) > 1:
            exhausted = sender.exhausted
            lane = queue._oldest_lane(~exhausted)
        elif not lane.entries:
            break
    if count:
        queue.has_left(now_ms, count, rerouted, waiting)
    return count


def pour_replies(replies: list[Any], sender: Sender, outbox: list[Any]) -> None:
    """Move the replies to a client into its session; they need no credit."""
    sender.send_all(replies, outbox)


def take_all(queue: OutputQueue, taken: list[Any], now_ms: float) -> int:
    """Move all messages of a queue to a list, in order, and return their number."""
    count = 0
    message = queue.take(now_ms)
    while message is not None:
        taken.append(message)
        count += 1
        message = queue.take(now_ms) if queue._size else None
    return count
