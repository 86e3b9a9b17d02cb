"""The routing tables of a TID broker (paper section 2).

- **Srt**, the Subscription Routing Table: every advertisement of the overlay with its last hop, the path of
  subscriptions. It also records which advertisements were ever seen.
- **Prt**, the Publication Routing Table: copies of subscriptions, each bound to one TID, with the last hop, the path of
  publications of that TID.
- **Unbound**: the subscriptions of local clients as they were issued. Bound copies are made from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from octopia.broker.numbered import Kept, Numbered
from octopia.content import Disjunction, Publication
from octopia.ids import BrokerId, ClientId, Peer, SubscriptionId
from octopia.matching import Advertisements, Subscriptions
from octopia.tid.messages import Tid

# A matcher stops at the first hit of a neighbour, but names every matching subscription of a client. Path selection
# needs them all, so bound copies are matched as if a client had issued them.
_NAME_THEM_ALL = ClientId("")


class SrtEntry(msgspec.Struct, frozen=True):
    """An advertisement and the hop towards its publisher."""

    tid: Tid
    offer: Disjunction
    last_hop: Peer
    ordered: bool = False

    @property
    def is_hosted_here(self) -> bool:
        """True if the publisher is a client of this broker."""
        return isinstance(self.last_hop, ClientId)


class Srt:
    """The Subscription Routing Table."""

    __slots__ = ("_entries", "_latest", "_matcher")

    def __init__(self, matcher: Advertisements):
        self._entries: dict[Tid, SrtEntry] = {}
        self._latest: dict[BrokerId, Tid] = {}
        self._matcher = matcher

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[SrtEntry]:
        """Yield the entries in order of insertion."""
        return iter(self._entries.values())

    def __contains__(self, tid: Tid) -> bool:
        return tid in self._entries

    def __getitem__(self, tid: Tid) -> SrtEntry:
        return self._entries[tid]

    def get(self, tid: Tid) -> SrtEntry | None:
        """Return an entry, or None if the advertisement is unknown."""
        return self._entries.get(tid)

    def has_seen(self, tid: Tid) -> bool:
        """Return whether this advertisement was ever stored here, even if it was withdrawn since.

        Links keep the order of control messages, and every broker passes on new ones in the order of arrival. So the
        advertisements of one host broker are first seen in the order of their ids, and remembering the latest is
        enough.
        """
        latest = self._latest.get(tid.host_broker)
        return latest is not None and tid <= latest

    @property
    def latest(self) -> dict[BrokerId, Tid]:
        """The latest advertisement seen from each host broker."""
        return self._latest

    def add(self, entry: SrtEntry) -> None:
        """Store an advertisement that was not seen before."""
        self._entries[entry.tid] = entry
        self._latest[entry.tid.host_broker] = entry.tid
        self._matcher.add(entry.tid, entry.offer, entry.last_hop)

    def remove(self, tid: Tid) -> SrtEntry:
        """Remove and return an entry; it still counts as seen."""
        self._matcher.remove(tid)
        return self._entries.pop(tid)

    def intersected_by(self, interest: Disjunction) -> list[SrtEntry]:
        """Return the entries whose advertisement intersects ``interest``, by TID."""
        return [self._entries[each] for each in self._matcher.intersected_by(interest)]

    def conforming(self, publication: Publication, publisher: ClientId) -> list[SrtEntry]:
        """Return the publisher's own entries to which ``publication`` conforms, by TID."""
        return [self._entries[each] for each in self._matcher.conforming(publication, publisher)]


class BoundCopy(msgspec.Struct, frozen=True):
    """A subscription bound to a TID; publications of that TID go to its last hop next."""

    subscription: SubscriptionId
    tid: Tid
    interest: Disjunction
    last_hop: Peer


class Prt:
    """The Publication Routing Table, with bound copies.

    Each subscription is matched once, however many copies of it are stored. The copies bound to the publication's tree
    are picked out afterwards.
    """

    __slots__ = ("_by_subscription", "_copies", "_found", "_matcher", "_numbered", "_trees")

    def __init__(self, matcher: Subscriptions):
        self._matcher = matcher
        self._numbered: Numbered[SubscriptionId] = Numbered()
        self._copies: dict[tuple[SubscriptionId, Tid], BoundCopy] = {}
        self._trees: dict[Tid, dict[SubscriptionId, BoundCopy]] = {}
        self._by_subscription: dict[SubscriptionId, dict[Tid, BoundCopy]] = {}
        self._found: Kept[tuple[SubscriptionId, ...], dict[Tid, tuple[BoundCopy, ...]]] = Kept()

    def __len__(self) -> int:
        return len(self._copies)

    def __iter__(self) -> Iterator[BoundCopy]:
        """Yield the copies in order of insertion."""
        return iter(self._copies.values())

    def __contains__(self, key: tuple[SubscriptionId, Tid]) -> bool:
        return key in self._copies

    @property
    def subscriptions(self) -> int:
        """The number of distinct subscriptions, which is what a publication is matched against."""
        return len(self._by_subscription)

    def add(self, copy: BoundCopy) -> None:
        """Store a copy; no other copy of the subscription may be bound to the same TID."""
        if copy.subscription not in self._by_subscription:
            self._by_subscription[copy.subscription] = {}
            number = self._matcher.add(copy.subscription, copy.interest, _NAME_THEM_ALL)
            self._numbered.add(number, copy.subscription)
        self._copies[copy.subscription, copy.tid] = copy
        self._by_subscription[copy.subscription][copy.tid] = copy
        self._trees.setdefault(copy.tid, {})[copy.subscription] = copy
        self._found.clear()

    def remove_from(self, subscription: SubscriptionId, last_hop: Peer) -> list[BoundCopy]:
        """Remove and return the copies of a subscription that came from ``last_hop``, by TID."""
        copies = [copy for copy in self.copies_of(subscription) if copy.last_hop == last_hop]
        for copy in copies:
            self._remove(copy)
        return copies

    def remove_tree(self, tid: Tid) -> None:
        """Remove all copies that are bound to a TID."""
        for copy in list(self._trees.get(tid, {}).values()):
            self._remove(copy)

    def matching(self, publication: Publication, tid: Tid) -> tuple[BoundCopy, ...]:
        """Return the copies bound to ``tid`` that match ``publication``, in no particular order.

        Equal results are mostly the same tuple object.
        """
        tree = self._trees.get(tid)
        if tree is None:
            return ()
        named = self._numbered.all(self._matcher.match(publication).numbers)
        by_tree = self._found.of(named, _nothing_yet)
        found = by_tree.get(tid)
        if found is None:
            found = by_tree[tid] = tuple([tree[each] for each in named if each in tree])
        return found

    def copies_of(self, subscription: SubscriptionId) -> list[BoundCopy]:
        """Return all copies of a subscription by lookup, by TID."""
        copies = self._by_subscription.get(subscription, {})
        return [copies[tid] for tid in sorted(copies)]

    def scan_for(self, subscriptions: Iterable[SubscriptionId]) -> dict[SubscriptionId, list[BoundCopy]]:
        """Return all copies of the subscriptions by a scan of the whole table, by TID."""
        found: dict[SubscriptionId, list[BoundCopy]] = {each: [] for each in subscriptions}
        for copy in self._copies.values():
            if copy.subscription in found:
                found[copy.subscription].append(copy)
        for copies in found.values():
            copies.sort(key=lambda copy: copy.tid)
        return found

    def _remove(self, copy: BoundCopy) -> None:
        self._found.clear()
        del self._copies[copy.subscription, copy.tid]
        copies = self._by_subscription[copy.subscription]
        del copies[copy.tid]
        if not copies:
            del self._by_subscription[copy.subscription]
            self._numbered.remove(self._matcher.remove(copy.subscription))
        tree = self._trees[copy.tid]
        del tree[copy.subscription]
        if not tree:
            del self._trees[copy.tid]


def _nothing_yet(_: tuple[SubscriptionId, ...]) -> dict[Tid, tuple[BoundCopy, ...]]:
    return {}


class UnboundSubscription(msgspec.Struct, frozen=True):
    """A subscription as a local client issued it."""

    id: SubscriptionId
    interest: Disjunction
    subscriber: ClientId


class Unbound:
    """The subscriptions of local clients."""

    __slots__ = ("_matcher", "_subscriptions")

    def __init__(self, matcher: Subscriptions):
        self._subscriptions: dict[SubscriptionId, UnboundSubscription] = {}
        self._matcher = matcher

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __iter__(self) -> Iterator[UnboundSubscription]:
        """Yield the subscriptions in the order in which they were issued."""
        return iter(self._subscriptions.values())

    def get(self, subscription: SubscriptionId) -> UnboundSubscription | None:
        """Return a subscription, or None if it is unknown."""
        return self._subscriptions.get(subscription)

    def add(self, subscription: UnboundSubscription) -> None:
        """Store a new subscription."""
        self._subscriptions[subscription.id] = subscription
        self._matcher.add(subscription.id, subscription.interest, subscription.subscriber)

    def remove(self, subscription: SubscriptionId) -> None:
        """Remove a subscription."""
        self._matcher.remove(subscription)
        del self._subscriptions[subscription]

    def intersecting(self, offer: Disjunction) -> list[UnboundSubscription]:
        """Return the subscriptions that intersect ``offer``, by id."""
        return [self._subscriptions[each] for each in self._matcher.intersecting(offer)]
