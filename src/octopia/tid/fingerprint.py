"""A canonical digest of the state of a TID broker.

The counterpart of ``octopia.broker.fingerprint``: pure history is left out. Dictionaries are written in order of their
keys, except where insertion order decides which entry is removed first.
"""

from __future__ import annotations

from typing import Any

from octopia.broker.fingerprint import describe_clients, describe_queue, describe_settings, digest
from octopia.tid.state import TidState


def fingerprint(state: TidState) -> str:
    """Return the digest of a broker's state as 32 hexadecimal digits."""
    return digest(describe(state))


def describe(state: TidState) -> list[Any]:
    """Return everything that determines a broker's future behaviour as nested lists in canonical order."""
    return [
        state.id,
        state.incarnation,
        describe_settings(state.settings),
        [state.next_advertisement, state.next_subscription, state.next_publication],
        [
            [entry.tid, entry.offer, str(entry.last_hop), entry.ordered]
            for entry in sorted(state.srt, key=lambda entry: entry.tid)
        ],
        [tid for _, tid in sorted(state.srt.latest.items())],
        [
            [copy.subscription, copy.tid, copy.interest, str(copy.last_hop)]
            for copy in sorted(state.prt, key=lambda copy: (copy.subscription, copy.tid))
        ],
        [
            [subscription.id, subscription.interest, str(subscription.subscriber)]
            for subscription in sorted(state.unbound, key=lambda subscription: subscription.id)
        ],
        [[str(peer), describe_queue(queue, state.now_ms)] for peer, queue in sorted(state.queues.items())],
        describe_clients(state),
        list(state.delivered.items()),
    ]
