"""The copies of publications that still wait at the end of a run: at which broker, and for whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from octopia.broker import OctopiaBroker
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties, Origin, clusters_of
from octopia.protocol.messages import Publish
from octopia.simulator.run import Run


@dataclasses.dataclass(frozen=True, slots=True)
class Whereabouts:
    """A copy that waits at ``broker`` until something happens.

    It is for the subscribers of ``clusters``, given as bits, or only for those of the broker ``receiver``.
    """

    broker: BrokerId
    until: str
    clusters: int
    receiver: BrokerId | None = None

    def __str__(self) -> str:
        return f"waits at {self.broker} until {self.until}"

    def may_reach(self, broker: BrokerId) -> bool:
        """Return whether the copy may be for the clients of a broker."""
        return broker == self.receiver if self.receiver is not None else self.clusters >> broker.cluster & 1 == 1


def waiting_copies(run: Run, number: int) -> list[Whereabouts]:
    """Return the copies of a publication that wait in waiting rooms, or for links that are down."""
    return [copy for broker in run.world.brokers.values() for copy in _waiting_at(run, broker, number)]


def _waiting_at(run: Run, broker: object, number: int) -> Iterator[Whereabouts]:
    if not isinstance(broker, OctopiaBroker):
        return
    for each in broker.state.room:
        if run.names.publication(each.publication.id) == number:
            yield _in_room(run, broker.id, each.duties)
    for link, queue in broker.state.queues.items():
        for message in queue.waiting() if queue.is_down else ():
            if isinstance(message, Publish) and run.names.publication(message.id) == number:
                carried = message.publication_civ.bits if message.publication_civ is not None else 0
                yield Whereabouts(broker.id, _return_of(run, link), carried | 1 << link.cluster)


def _in_room(run: Run, broker: BrokerId, duties: Duties) -> Whereabouts:
    if duties.origin is not Origin.LOCAL:
        return Whereabouts(broker, "a way opens", duties.clusters)
    [cluster] = clusters_of(duties.enter)
    receiver = BrokerId(broker.region, cluster)
    return Whereabouts(broker, _return_of(run, receiver), duties.clusters, receiver)


def _return_of(run: Run, broker: BrokerId) -> str:
    return f"{broker} {'can be reached' if broker in run.world.brokers else 'is back'}"
