"""The deadlines of clients, so that only those are looked at that are due.

A heap has one valid entry per client, at its deadline or earlier: deadlines mostly move to later times, and an entry is
moved only when it is reached.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from octopia.ids import ClientId
from octopia.node.links import ClientLink


class Alarms:
    """The times at which a node must look at its clients."""

    def __init__(self, clients: Mapping[ClientId, ClientLink]):
        self._clients = clients
        self._heap: list[tuple[float, ClientId]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, client: ClientLink) -> None:
        """Look at a client at its deadline, unless it is looked at earlier."""
        due_ms = client.next_deadline_ms
        if due_ms is not None and (client.alarm_ms is None or due_ms < client.alarm_ms):
            client.alarm_ms = due_ms
            heapq.heappush(self._heap, (due_ms, client.peer))

    def take(self, now_ms: float) -> list[ClientLink]:
        """Remove the alarms that are due, and return their clients in the order of their arrival."""
        taken = []
        while self._heap and self._heap[0][0] <= now_ms:
            client = self._take_first()
            if client is not None:
                taken.append(client)
        return sorted(taken, key=lambda each: each.peer.session)

    def next_ms(self) -> float | None:
        """Return the earliest deadline of a client, after moving alarms that are too early."""
        while self._heap:
            alarm_ms, name = self._heap[0]
            client = self._clients.get(name)
            if client is not None and client.alarm_ms == alarm_ms == client.next_deadline_ms:
                return alarm_ms
            client = self._take_first()
            if client is not None:
                self.set(client)
        return None

    def _take_first(self) -> ClientLink | None:
        """Remove the earliest alarm, and return its client, unless that has left or has another alarm."""
        alarm_ms, name = heapq.heappop(self._heap)
        client = self._clients.get(name)
        if client is None or client.alarm_ms != alarm_ms:
            return None
        client.alarm_ms = None
        return client
