"""A workload in virtual time: the scenario that it stands for, run with the brokers that the network runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from octopia.broker import Detail, Verdict
from octopia.errors import UsageError
from octopia.overlay import Scot
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.playing.files import Issued, Workload
from octopia.scenario import AdvertiseItem, ClientSpec, Event, LinkChange, PublishItem, Scenario, SubscribeItem
from octopia.settings import RoutingSettings
from octopia.simulator.profiles import find_profile
from octopia.simulator.run import Run, run_scenario
from octopia.trace import TraceSink


@dataclasses.dataclass(frozen=True, slots=True)
class Play:
    """How a workload is played: ``first`` so many publications, 0 for all; ``uncongested``: with all links free.

    With ``sample_ms``, the trace tells every so many milliseconds which queues hold something.
    """

    routing: RoutingSettings
    profile: str = "unit"
    seed: int = 0
    first: int = 0
    detail: Detail = Detail.DELIVERIES
    uncongested: bool = False
    sample_ms: float = 0.0


def play_simulated(
    workload: Workload, play: Play, run_id: str, sinks: Sequence[TraceSink], overlay: Overlay | None = None
) -> Run:
    """Play a workload in virtual time; its deliveries go to the sinks and are not kept in memory."""
    scenario = scenario_of(workload, play, overlay)
    profile = find_profile(play.profile)
    return run_scenario(
        scenario,
        seed=play.seed,
        profile=profile,
        detail=play.detail,
        keep=False,
        sinks=sinks,
        run_id=run_id,
        sample_ms=play.sample_ms,
    )


def scenario_of(workload: Workload, play: Play, overlay: Overlay | None = None) -> Scenario:
    """Return the scenario that a workload stands for: publishers first, then subscribers, then publications by time.

    An ``overlay`` of the same brokers may shape the links.
    """
    clients = [
        *(
            _client(each, AdvertiseItem(each.client, each.id, each.text, each.filter))
            for each in workload.advertisements
        ),
        *(
            _client(each, SubscribeItem(each.client, each.id, each.text, each.filter))
            for each in workload.subscriptions
        ),
    ]
    _check_names(clients)
    events = [
        Event(PublishItem(each.publisher, each.publication), at_ms=each.at_ms)
        for each in workload.timed(play.first or None)
    ]
    return Scenario(
        name=workload.name,
        overlay=overlay or overlay_from_text(workload.tree, workload.scot.clusters),
        routing=play.routing,
        clients=tuple(clients),
        links=(_all_free(workload.scot),) if play.uncongested else (),
        events=tuple(events),
    )


def _all_free(scot: Scot) -> LinkChange:
    """Let no link count as congested, whatever waits for it."""
    joined = (*scot.alinks, *scot.ilinks)
    return LinkChange(tuple(both for low, high in joined for both in ((low, high), (high, low))), Verdict.FREE)


def _client(issued: Issued, item: AdvertiseItem | SubscribeItem) -> ClientSpec:
    return ClientSpec(issued.client, issued.broker, (item,))


def _check_names(clients: Sequence[ClientSpec]) -> None:
    for one, other in itertools.pairwise(sorted(client.name for client in clients)):
        if one == other:
            raise UsageError(f"expected one advertisement or subscription of each client, got two of {one}")
