"""The state of one TID broker."""

from __future__ import annotations

import dataclasses

from octopia.broker.common import CommonState
from octopia.broker.interface import Counters
from octopia.broker.numbered import Kept
from octopia.ids import BrokerId, Peer, PublicationId, SubscriptionId
from octopia.settings import Algorithm
from octopia.tid.kept_paths import Choices
from octopia.tid.messages import TidMessage
from octopia.tid.tables import BoundCopy, Prt, Srt, Unbound


@dataclasses.dataclass(slots=True)
class TidCounters(Counters):
    """The counters that only a TID broker has.

    ``duplicates_discarded`` counts second copies in floods. ``duplicate_deliveries_dropped`` counts repeated deliveries
    at the edge, one per subscription. ``rewritten`` counts copies that left under another TID than they came with.
    ``orphaned`` counts publications whose TID was already withdrawn here. ``entries_scanned`` counts entries of the PRT
    that were read in search of other paths.
    """

    duplicates_discarded: int = 0
    duplicate_deliveries_dropped: int = 0
    rewritten: int = 0
    orphaned: int = 0
    entries_scanned: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class TidState(CommonState):
    """The complete state of a TID broker.

    ``delivered`` holds, under dynamic routing, the local subscriptions that got each of the latest publications.
    ``kept_local`` and ``kept_choices`` cache the local subscriptions among sets of matching copies, and the choices of
    path selection. After a change of the PRT, it returns other sets.
    """

    srt: Srt
    prt: Prt
    unbound: Unbound
    delivered: dict[PublicationId, tuple[SubscriptionId, ...]] = dataclasses.field(default_factory=dict)
    counters: TidCounters = dataclasses.field(default_factory=TidCounters)
    kept_local: Kept[tuple[BoundCopy, ...], tuple[SubscriptionId, ...]] = dataclasses.field(default_factory=Kept)
    kept_choices: Kept[tuple[BoundCopy, ...], Choices] = dataclasses.field(default_factory=Kept)

    def choices_for(self, matched: tuple[BoundCopy, ...]) -> Choices:
        """Return the choices of path selection for a set of matching copies."""
        return Choices(matched, self.prt.copies_of)

    @property
    def subscriptions_searched(self) -> int:
        """The number of distinct subscriptions, each of them matched once, regardless of its bound copies."""
        return self.prt.subscriptions

    @property
    def neighbours(self) -> list[BrokerId]:
        """All neighbours by broker id: to this broker, all links are of one kind."""
        return sorted(self.neighbourhood.neighbours)

    @property
    def is_dynamic(self) -> bool:
        """True if publications may change trees."""
        return self.settings.routing.algorithm is Algorithm.TID_DYNAMIC

    def flood(self, last_hop: Peer, message: TidMessage) -> None:
        """Send a control message to all neighbours except the one it came from."""
        for neighbour in self.neighbours:
            if neighbour != last_hop:
                self.send(neighbour, message)
