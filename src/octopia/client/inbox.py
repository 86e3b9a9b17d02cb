"""The inbox of a subscription: received publications go into it, each once, until they are read.

Plain Python that Cython compiles (``inbox.pxd``), since every receipt passes here. ``buffer`` has everything that
happens rarely, and the reader's side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from octopia.client.callbacks import Callback, call
from octopia.client.received import Received, received_of
from octopia.client.seen import Seen
from octopia.protocol.transit import Deliver


class Inbox:
    """The publications that wait to be read, at most ``room``, or a callback that takes them.

    The room is 0 with a callback. After the end of the subscription there is neither. ``unacknowledged`` has the
    numbers of the publications that the program must acknowledge itself, in order, or is None.
    """

    __slots__ = ("callback", "items", "room", "seen", "unacknowledged")

    def __init__(self, room: int, callback: Callback | None = None) -> None:
        self.items: deque[Received] = deque()
        self.seen = Seen()
        self.room = room if callback is None else 0
        self.callback = callback
        self.unacknowledged: deque[int] | None = None

    def put(self, received: Received) -> bool:
        """Handle a publication for which there is no room; return False if that ends the subscription."""
        raise NotImplementedError


def deliver(
    messages: Sequence[Any],
    at: int,
    inboxes: dict[int, Any],
    received_ms: float,
    touched: dict[Any, None],
    ended: Callable[[int], None],
    number: int = 0,
) -> int:
    """Put the deliveries from an index on into the inboxes, by handle, and return the index of the first other message.

    ``touched`` collects the inboxes with something new. ``ended`` is called with the handle of a subscription that ends
    because its inbox is full. ``number`` is that of the first message.
    """
    size = len(messages)
    last: Any = None
    while at < size:
        message = messages[at]
        if type(message) is not Deliver:
            break
        delivery = message
        received = received_of(delivery, received_ms, number + at)
        for handle in delivery.handles:
            inbox = inboxes.get(handle)
            if inbox is None or not inbox.seen.add(delivery.host_broker, delivery.incarnation, delivery.number):
                continue  # It was withdrawn while this was on its way, or has this already.
            if inbox is not last:
                touched[inbox] = None
                last = inbox
            if inbox.unacknowledged is not None:
                inbox.unacknowledged.append(number + at)
            if len(inbox.items) < inbox.room:
                inbox.items.append(received)
            elif inbox.callback is not None:
                call(inbox.callback, received)
            elif not inbox.put(received):
                ended(handle)
        at += 1
    return at
