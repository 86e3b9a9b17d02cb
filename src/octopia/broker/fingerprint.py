"""A canonical digest of a broker's state.

Two brokers with equal fingerprints behave alike from here on. What only tells of the past (counters, facts, effects) is
left out; dictionaries are written in order of their keys, so that neither history nor hash seeds show.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import msgspec

from octopia.broker.interface import Detail
from octopia.broker.queues import OutputQueue
from octopia.broker.state import Client, State
from octopia.broker.tables import CltEntry, PrtEntry
from octopia.content import Publication


def fingerprint(state: State) -> str:
    """Return the digest of a broker's state as 32 hexadecimal digits."""
    encoded = msgspec.msgpack.encode(describe(state), enc_hook=_encode_publication)
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def describe(state: State) -> list[Any]:
    """Return all that determines a broker's future as nested lists in canonical order."""
    return [
        state.id,
        state.incarnation,
        dataclasses.asdict(dataclasses.replace(state.settings, detail=Detail.OFF)),
        [state.next_advertisement, state.next_subscription, state.next_publication, state.next_version],
        [_advertisement(entry) for entry in sorted(state.clt, key=lambda entry: entry.id)],
        [_subscription(entry) for entry in sorted(state.prt, key=lambda entry: entry.id)],
        [
            [str(peer), _queue(queue, state.now_ms)]
            for peer, queue in sorted(state.queues.items(), key=lambda item: str(item[0]))
        ],
        [[str(client), _client(known)] for client, known in sorted(state.clients.items())],
    ]


def _advertisement(entry: CltEntry) -> list[Any]:
    versions = [[secondary, version] for secondary, version in sorted(entry.versions.items())]
    return [entry.id, entry.offer, str(entry.last_hop), entry.civ, entry.ordered, versions]


def _subscription(entry: PrtEntry) -> list[Any]:
    return [entry.id, entry.interest, str(entry.last_hop)]


def _queue(queue: OutputQueue, now_ms: float) -> list[Any]:
    window = queue.window
    window.roll(now_ms)  # Windows roll when they are looked at; a state must not depend on who looked.
    counts = [window.index, window.entered, window.left, window.closed_entered, window.closed_left]
    return [queue.waiting(), counts, queue.verdict.value, queue.forced_length]


def _client(client: Client) -> list[Any]:
    advertisements = sorted(client.advertisements.items())
    subscriptions = sorted(client.subscriptions.items())
    return [client.overflow.value, advertisements, subscriptions, client.lost, client.is_cut_off]


def _encode_publication(value: object) -> object:
    if isinstance(value, Publication):
        return [sorted(value.attributes.items()), value.payload]
    raise NotImplementedError(f"no canonical form for {type(value).__name__}")
