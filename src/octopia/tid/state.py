"""The state of one broker that routes by tree ids."""

from __future__ import annotations

import dataclasses

from octopia.broker.common import CommonState
from octopia.broker.interface import Counters
from octopia.broker.numbered import Kept
from octopia.ids import BrokerId, Peer, PublicationId, SubscriptionId
from octopia.settings import Algorithm
from octopia.tid.messages import TidMessage
from octopia.tid.tables import BoundCopy, Prt, Srt, Unbound


@dataclasses.dataclass(slots=True)
class TidCounters(Counters):
    """What such a broker counts beside what all do.

    ``duplicates_discarded`` are second copies in floods; ``duplicate_deliveries_dropped`` deliveries, one a
    subscription, that the edge had made before; ``rewritten`` copies that left under another TID than they came with;
    ``orphaned`` publications that came when their TID had been withdrawn here; ``entries_scanned`` entries of the PRT
    that were read in search of other paths.
    """

    duplicates_discarded: int = 0
    duplicate_deliveries_dropped: int = 0
    rewritten: int = 0
    orphaned: int = 0
    entries_scanned: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class TidState(CommonState):
    """Everything that such a broker remembers.

    ``delivered`` holds, under dynamic routing, the local subscriptions that got each of the latest publications;
    ``kept_local`` those of the local clients among copies that match again and again.
    """

    srt: Srt
    prt: Prt
    unbound: Unbound
    delivered: dict[PublicationId, tuple[SubscriptionId, ...]] = dataclasses.field(default_factory=dict)
    counters: TidCounters = dataclasses.field(default_factory=TidCounters)
    kept_local: Kept[tuple[BoundCopy, ...], tuple[SubscriptionId, ...]] = dataclasses.field(default_factory=Kept)

    @property
    def subscriptions_searched(self) -> int:
        """The number of entries against which a publication is matched."""
        return len(self.prt)

    @property
    def neighbours(self) -> list[BrokerId]:
        """All neighbours by broker id: to this broker, links are of one kind."""
        return sorted(self.neighbourhood.neighbours)

    @property
    def is_dynamic(self) -> bool:
        """Whether publications may change trees."""
        return self.settings.routing.algorithm is Algorithm.TID_DYNAMIC

    def flood(self, last_hop: Peer, message: TidMessage) -> None:
        """Send a control message to all neighbours but the one it came from."""
        for neighbour in self.neighbours:
            if neighbour != last_hop:
                self.send(neighbour, message)
