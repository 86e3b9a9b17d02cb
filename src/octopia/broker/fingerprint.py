"""A canonical digest of a broker's state.

Two brokers with equal fingerprints behave the same from then on. Pure history (counters, facts, effects) is left out.
Dictionaries are written in order of their keys, so neither insertion order nor hash seeds matter.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from octopia.broker.common import BrokerSettings, Client, CommonState
from octopia.broker.interface import Detail
from octopia.broker.queues import OutputQueue
from octopia.broker.state import Confirming, Input, Owed, Recovery, Request, State
from octopia.broker.tables import CltEntry, PrtEntry
from octopia.content import Publication
from octopia.ids import Peer
from octopia.protocol import Cause
from octopia.protocol.duties import Duties
from octopia.protocol.transit import Data, Frame


def fingerprint(state: State) -> str:
    """Return the digest of a broker's state as 32 hexadecimal digits."""
    return digest(describe(state))


def digest(description: list[Any]) -> str:
    """Return the digest of a description as 32 hexadecimal digits."""
    encoded = msgspec.msgpack.encode(description, enc_hook=_encode)
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def describe(state: State) -> list[Any]:
    """Return everything that determines a broker's future behaviour as nested lists in canonical order."""
    return [
        state.id,
        state.incarnation,
        [describe_settings(state.settings), state.algorithm],
        [state.next_advertisement, state.next_subscription, state.next_publication, state.next_version],
        [_advertisement(entry) for entry in sorted(state.clt, key=lambda entry: entry.id)],
        [_subscription(entry) for entry in sorted(state.prt, key=lambda entry: entry.id)],
        [[str(peer), describe_queue(queue, state.now_ms)] for peer, queue in sorted(state.queues.items())],
        describe_clients(state),
        [[subscription, _confirming(waiting)] for subscription, waiting in sorted(state.confirming.items())],
        sorted([str(named), _request(request)] for named, request in state.requests.items()),
        sorted(state.down),
        _recovery(state.recovery),
        [[neighbour, sorted(unnamed)] for neighbour, unnamed in sorted(state.unnamed.items())],
        [[neighbour, sorted(unnamed)] for neighbour, unnamed in sorted(state.unnamed_advertisements.items())],
        [[str(peer), traffic_class, _input(state.inputs[peer, traffic_class])] for peer, traffic_class in _keys(state)],
        [[link, traffic_class, _waiters(waiting)] for (link, traffic_class), waiting in sorted(state.blocked.items())],
        [[link, sorted(map(_owed, owed.items()))] for link, owed in sorted(state.owed.items())],
        sorted(state.overdue),
        [[each.publication, _duties(each.duties), each.since_ms, each.refused_by] for each in state.room],
        state.room.due,
        [[cluster, status] for cluster, status in sorted(state.statuses.all.items())],
        [state.status_sender.told, state.status_sender.window, state.links_changed],
        [[str(client), advertisements] for client, advertisements in sorted(state.leaving.items())],
    ]


def _advertisement(entry: CltEntry) -> list[Any]:
    versions = [[secondary, version] for secondary, version in sorted(entry.versions.items())]
    held = [[secondary, directions] for secondary, directions in sorted(entry.held.items())]
    updates = [sorted(entry.pending), entry.directions, entry.sent, entry.acked, held]
    return [entry.id, entry.offer, str(entry.last_hop), entry.civ, entry.ordered, versions, updates]


def _subscription(entry: PrtEntry) -> list[Any]:
    return [entry.id, entry.interest, str(entry.last_hop)]


def describe_settings(settings: BrokerSettings) -> dict[str, Any]:
    """Return the settings without the trace level, which does not affect behaviour."""
    return dataclasses.asdict(dataclasses.replace(settings, detail=Detail.OFF))


def describe_queue(queue: OutputQueue, now_ms: float) -> list[Any]:
    """Return the contents of a queue and the state of its congestion verdict."""
    window = queue.window
    window.roll(now_ms, len(queue))  # Windows roll when they are read; a state must not depend on reads.
    counts = [window.index, window.entered, window.left, window.closed_entered, window.closed_left]
    return [queue.waiting(), counts, queue.verdict.value, queue.forced_length, queue.down_since_ms, queue.is_closed]


def describe_clients(state: CommonState) -> list[Any]:
    """Return what the clients of a broker have issued, the entries that wait for them, and the backlog."""
    known = [[str(client), _client(record)] for client, record in sorted(state.clients.items())]
    backlog = sorted([task.name, str(peer), list(entries)] for (task, peer), entries in state.backlog.items())
    return [known, state.for_clients, backlog]


def _client(client: Client) -> list[Any]:
    return [sorted(client.advertisements.items()), sorted(client.subscriptions.items())]


def _confirming(waiting: Confirming) -> list[Any]:
    return [str(waiting.last_hop), sorted(waiting.neighbours), sorted(waiting.bits.items()), waiting.lost_bits]


def _request(request: Request) -> list[Any]:
    return [str(request.client), request.kind.value, request.handle, request.deadline_ms]


def _recovery(recovery: Recovery | None) -> list[Any]:
    if recovery is None:
        return []
    return [
        sorted(recovery.incomplete),
        sorted(recovery.unmet),
        [[neighbour, sorted(awaited)] for neighbour, awaited in sorted(recovery.awaited.items())],
        [[neighbour, sorted(awaited)] for neighbour, awaited in sorted(recovery.awaited_advertisements.items())],
        sorted(recovery.told_complete),
        [recovery.knows_cluster, recovery.knows_region, recovery.grace_passed, recovery.grace_until_ms],
        sorted(recovery.passed_by),
        sorted(recovery.unheard),
    ]


def _keys(state: State) -> list[tuple[Peer, int]]:
    return sorted(state.inputs, key=lambda key: (str(key[0]), key[1]))


def _input(known: Input) -> list[Any]:
    waiting = sorted(known.placing.items(), key=lambda item: item[0])
    placing = [[link, traffic_class, copy, _duties(duties)] for (link, traffic_class), (copy, duties) in waiting]
    return [list(known.waiting), placing]


def _waiters(waiting: Iterable[tuple[Peer, int]]) -> list[Any]:
    return [[str(peer), traffic_class] for peer, traffic_class in waiting]


def _duties(duties: Duties | None) -> list[Any]:
    return [] if duties is None else [duties.enter, duties.cross, str(duties.origin), duties.ilinks]


def _owed(entry: tuple[Cause, Owed]) -> list[Any]:
    cause, owed = entry
    return [cause, owed.count, owed.clusters]


def _encode(value: object) -> object:
    if isinstance(value, Publication):
        return [sorted(value.attributes.items()), value.payload]
    if isinstance(value, Data | Frame):
        return [type(value).__name__, *(getattr(value, name) for name in value.__match_args__)]
    raise NotImplementedError(f"no canonical form for {type(value).__name__}")
