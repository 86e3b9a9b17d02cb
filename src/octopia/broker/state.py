"""The state of one OctopiA broker.

The algorithms are functions over this state, in modules of their own: those of the paper (``advertising``,
``subscribing``, ``publishing``), and those that add safety (``confirming``, ``exchanging``, ``placing``, ``limits``).
Outgoing messages are put into output queues and noted in the effects of the current input.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import deque
from collections.abc import Collection, Iterable

import msgspec

from octopia.broker.adaptive_routing import Audience
from octopia.broker.common import BrokerSettings, Client, CommonState, Task
from octopia.broker.express import Roads
from octopia.broker.statuses import StatusSender, StatusTable
from octopia.broker.tables import Clt, CltEntry, Prt
from octopia.broker.waiting_room import WaitingRoom
from octopia.content import Disjunction
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.markers import Derived, Fixed, History
from octopia.protocol import Cause, ClusterIndexVector, MessageKind
from octopia.protocol.directions import Directions
from octopia.protocol.duties import Duties
from octopia.protocol.messages import CivNone, CivSet, CivUnset, Publish, PublishRequest, Version
from octopia.settings import Algorithm

__all__ = ["BrokerSettings", "Client", "Confirming", "Input", "Owed", "Recovery", "Request", "State", "Task"]

_id_of = operator.attrgetter("id")


class Confirming(msgspec.Struct, gc=False):
    """A subscription that is not yet confirmed to its last hop, and what it waits for (D5).

    ``bits`` maps advertisements to the version of our bit that their host broker must acknowledge; a later one will do.
    ``lost_bits`` is True if a link to a secondary neighbour was lost since they were gathered.
    """

    interest: Disjunction
    last_hop: Peer
    neighbours: dict[BrokerId, None]
    bits: dict[AdvertisementId, Version]
    lost_bits: bool = False


class Request(msgspec.Struct, frozen=True, gc=False):
    """A client's request that waits for confirmation, with its deadline."""

    client: ClientId
    kind: MessageKind
    handle: int
    deadline_ms: float | None


@dataclasses.dataclass(slots=True)
class Recovery:
    """The progress of a restarted broker that recovers its state.

    ``incomplete`` holds the primary neighbours that have sent no complete digest, and ``awaited`` the subscriptions
    named in their digests that have not arrived. ``unmet`` and ``awaited_advertisements`` are the same for secondary
    neighbours. ``told_complete`` holds the primary neighbours that were sent a complete digest. ``knows_cluster`` is
    True once the PRT is complete, and ``knows_region`` while the CLT has all advertisements of secondary neighbours.
    ``passed_by`` holds the neighbours that were unknown at the end of the grace period: publications may have passed
    by the subscriptions behind a primary neighbour, and publications of a secondary neighbour by this cluster.
    ``unheard`` holds the primary neighbours that have not yet sent everything that lies behind them.
    """

    incomplete: dict[BrokerId, None]
    unmet: dict[BrokerId, None]
    grace_until_ms: float
    awaited: dict[BrokerId, dict[SubscriptionId, None]] = dataclasses.field(default_factory=dict)
    awaited_advertisements: dict[BrokerId, dict[AdvertisementId, None]] = dataclasses.field(default_factory=dict)
    told_complete: dict[BrokerId, None] = dataclasses.field(default_factory=dict)
    knows_cluster: bool = False
    knows_region: bool = False
    grace_passed: bool = False
    passed_by: dict[BrokerId, None] = dataclasses.field(default_factory=dict)
    unheard: dict[BrokerId, None] = dataclasses.field(default_factory=dict)

    def knows_all_from(self, neighbour: BrokerId) -> bool:
        """Return whether a primary neighbour has sent everything that lies behind it."""
        return neighbour not in self.incomplete and not self.awaited.get(neighbour)

    def has_met(self, secondary: BrokerId) -> bool:
        """Return whether a secondary neighbour has sent every advertisement that it hosts."""
        return secondary not in self.unmet and not self.awaited_advertisements.get(secondary)


@dataclasses.dataclass(slots=True)
class Input:
    """The publications of one class from one link that are accepted but not yet placed, oldest first.

    ``placing`` holds the copies of the oldest one that wait for room, by lane, under adaptive routing with their
    duties. It is routed, the others are not.
    """

    waiting: deque[Publish | PublishRequest] = dataclasses.field(default_factory=deque)
    placing: dict[tuple[BrokerId, int], tuple[Publish, Duties | None]] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of publications."""
        return len(self.waiting) + bool(self.placing)


@dataclasses.dataclass(slots=True)
class Owed:
    """The gap notices of one cause that wait for a link: the number of losses, and the clusters to enter."""

    count: int = 0
    clusters: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class State(CommonState):
    """The complete state of an OctopiA broker.

    ``waits`` maps advertisements to the subscriptions that wait for our bit. ``confirmed`` holds the subscriptions to
    confirm to each neighbour at the end of the current input. ``deadlines`` is a heap of the deadlines of requests;
    it may hold settled ones. While the digest of a neighbour arrives in parts, ``unnamed`` or
    ``unnamed_advertisements`` holds the entries known from it that no part has named. ``owed`` holds the gap notices
    for links that are down, and ``overdue`` the links that have been down for too long. ``leaving`` holds the
    advertisements of clients that have left while publications of theirs wait to be placed. Adaptive routing has the
    ``room`` where copies wait for a way, the ``statuses`` that secondary neighbours have told, and what this broker has
    told them; ``links_changed`` is True if a link went down or came up since. ``roads`` caches the express ways of
    publications from each neighbour; clones of a state share it, and replace what belongs to another. ``unions`` caches
    the audiences of publications that conform to several advertisements. ``is_adaptive`` is True if publications are
    routed adaptively.
    """

    clt: Clt
    prt: Prt
    down: dict[BrokerId, None] = dataclasses.field(default_factory=dict)
    confirming: dict[SubscriptionId, Confirming] = dataclasses.field(default_factory=dict)
    requests: dict[SubscriptionId | AdvertisementId, Request] = dataclasses.field(default_factory=dict)
    waits: Derived[dict[AdvertisementId, dict[SubscriptionId, None]]] = dataclasses.field(default_factory=dict)
    confirmed: dict[BrokerId, list[SubscriptionId]] = dataclasses.field(default_factory=dict)
    deadlines: Derived[list[tuple[float, str, SubscriptionId | AdvertisementId]]] = dataclasses.field(
        default_factory=list
    )
    unnamed: dict[BrokerId, dict[SubscriptionId, None]] = dataclasses.field(default_factory=dict)
    unnamed_advertisements: dict[BrokerId, dict[AdvertisementId, None]] = dataclasses.field(default_factory=dict)
    recovery: Recovery | None = None
    inputs: dict[tuple[Peer, int], Input] = dataclasses.field(default_factory=dict)
    blocked: dict[tuple[BrokerId, int], deque[tuple[Peer, int]]] = dataclasses.field(default_factory=dict)
    owed: dict[BrokerId, dict[Cause, Owed]] = dataclasses.field(default_factory=dict)
    overdue: dict[BrokerId, None] = dataclasses.field(default_factory=dict)
    leaving: dict[ClientId, list[AdvertisementId]] = dataclasses.field(default_factory=dict)
    room: WaitingRoom = dataclasses.field(default_factory=WaitingRoom)
    statuses: StatusTable = dataclasses.field(default_factory=StatusTable)
    status_sender: StatusSender = dataclasses.field(default_factory=StatusSender)
    links_changed: bool = False
    next_version: int = 0
    roads: History[dict[BrokerId, Roads]] = dataclasses.field(default_factory=dict)
    unions: Derived[dict[tuple[AdvertisementId, ...], tuple[tuple[Audience, ...], Audience]]] = dataclasses.field(
        default_factory=dict
    )
    is_adaptive: Fixed[bool] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        CommonState.__post_init__(self)  # A class with slots is made twice, and super() knows the first one only.
        self.is_adaptive = self.settings.routing.algorithm is Algorithm.ADAPTIVE

    @property
    def subscriptions_searched(self) -> int:
        """The number of entries against which a publication is matched."""
        return len(self.prt)

    @property
    def cluster(self) -> int:
        """The index of this broker's cluster, and of its bit in every CIV."""
        return self.neighbourhood.broker.cluster

    @property
    def confirms(self) -> bool:
        """True if subscriptions and advertisements are confirmed (D5)."""
        return self.settings.routing.confirmations

    def carries_data(self, link: BrokerId) -> bool:
        """Return whether the link to a neighbour is up and not closed."""
        return link not in self.down and not self.queues[link].is_closed

    @property
    def unheard_neighbours(self) -> Collection[BrokerId]:
        """The primary neighbours with subscriptions that this broker may not know: they count as wanting everything."""
        return self.recovery.unheard if self.recovery is not None else ()

    @property
    def prt_is_complete(self) -> bool:
        """True if this broker knows every subscription of its cluster; only then may it answer 0."""
        return self.recovery is None or self.recovery.knows_cluster

    @property
    def accepts_data(self) -> bool:
        """True if publications may be routed here: once the PRT is complete, or after the grace period."""
        return self.recovery is None or self.recovery.grace_passed or self.prt_is_complete

    @property
    def knows_region(self) -> bool:
        """True if this broker knows the advertisements of its region, or no longer waits for them."""
        return self.recovery is None or self.recovery.grace_passed or self.recovery.knows_region

    def civ_of(self, *clusters: int) -> ClusterIndexVector:
        """Return a CIV with the bits of ``clusters`` set."""
        return ClusterIndexVector.of(clusters, self.neighbourhood.clusters)

    def mint_version(self) -> Version:
        """Return the version of a CIV update: later than every update that this broker sent before (D4)."""
        self.next_version += 1
        return Version(self.incarnation, self.next_version)

    def send_civ_updates(
        self, update: type[CivSet] | type[CivUnset] | type[CivNone], entries: Iterable[CltEntry]
    ) -> None:
        """Send one update per iLink that names all the given advertisements received over it (D3)."""
        per_ilink: dict[BrokerId, list[CltEntry]] = {}
        for entry in entries:
            assert isinstance(entry.last_hop, BrokerId)
            per_ilink.setdefault(entry.last_hop, []).append(entry)
        for host_broker in sorted(per_ilink):
            version = self.mint_version()
            for entry in per_ilink[host_broker]:
                entry.sent = version
            named = sorted(per_ilink[host_broker], key=_id_of)
            ids = tuple([entry.id for entry in named])
            if issubclass(update, CivNone):
                self.send(host_broker, CivNone(ids, version))
            else:
                self.send(host_broker, update(ids, version, self.directions_in(named)))

    def directions_in(self, entries: Iterable[CltEntry]) -> tuple[Directions, ...]:
        """Return our answers to advertisements as messages carry them; only adaptive routing has directions."""
        return tuple([entry.directions for entry in entries]) if self.is_adaptive else ()
