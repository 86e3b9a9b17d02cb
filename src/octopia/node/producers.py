"""Producers: publishers whose publications are numbered over all of their sessions, so that none is accepted twice.

A program that publishes from a store numbers the publications in the store. After a crash it asks its broker for the
last number that the broker has received, and continues after it; repeated publications are dropped here, before the
broker sees them. A node remembers the last sequence of each producer for as long as it runs, of at most ``MOST``
producers. Beyond that it forgets a tenth, those that published longest ago. Holders of tokens share the room: the ones
with most producers lose theirs first, so nobody can make a node forget the producers of others by using many names.
Without tokens a node cannot distinguish holders.
"""

from __future__ import annotations

from collections.abc import Sequence

from octopia.protocol.messages import Message, ProduceRequest, PublishRequest

MOST = 10_000
"""The number of producers that a node remembers."""


def begin(known: dict[str, int], producer: str) -> int:
    """Return the last sequence of a producer, 0 for a new one."""
    last = known.pop(producer, 0)
    if len(known) >= MOST:
        _forget_some(known, MOST - max(1, MOST // 10))
    known[producer] = last
    return last


def _forget_some(known: dict[str, int], room: int) -> None:
    """Forget the oldest producers of the holders that have most, until the others have room."""
    by_holder: dict[str, list[str]] = {}
    for name in known:
        by_holder.setdefault(name.partition("/")[0], []).append(name)
    share = max(1, _share(sorted(map(len, by_holder.values())), room))
    for names in by_holder.values():
        for name in names[:-share]:
            del known[name]
    while len(known) > room:  # There are more holders than room.
        del known[next(iter(known))]


def _share(counts: Sequence[int], room: int) -> int:
    """Return how many each may keep so that all fit: those with fewer (``counts`` ascend) leave the rest to others."""
    for index, count in enumerate(counts):
        share = room // (len(counts) - index)
        if count > share:
            return share
        room -= count
    return max(counts)


def screen(known: dict[str, int], producer: str, messages: Sequence[Message]) -> list[Message]:
    """Return the messages without publications that the producer has published before, and note the new ones."""
    last = begin(known, producer)
    fresh: list[Message] = []
    for message in messages:
        if type(message) is PublishRequest:
            if message.sequence <= last:
                continue
            last = message.sequence
        fresh.append(message)
    known[producer] = last
    return fresh


def first_request(messages: Sequence[Message]) -> int:
    """Return the index of the first request to be a producer, or -1."""
    for index, message in enumerate(messages):
        if type(message) is ProduceRequest:
            return index
    return -1
