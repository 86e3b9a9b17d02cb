"""Visits replayed step by step: finding the matching subscriptions, and choosing links.

A stop is a visit with the tables of its broker. Its steps call the functions that the broker calls, with the same
arguments, and change no table; they queue no copies and make no deliveries. Brokers remember choices that return; here
every choice is made as if for the first time. At the host broker, neither step includes finding the advertisements to
which a publication conforms.

A stop can be checked: it must find what the run found. Otherwise we would measure something else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from octopia.broker import Case, Decision, OctopiaBroker, adapting
from octopia.broker.adaptive_routing import AdaptiveDecision, Arrival, published, route_adaptively
from octopia.broker.audience import audience_of
from octopia.broker.dynamic_routing import route_dynamically
from octopia.broker.publishing import View, wanted_at_host, wanted_beyond
from octopia.broker.state import State
from octopia.broker.static_routing import Wanted, route_statically
from octopia.broker.tables import CltEntry
from octopia.content import Publication
from octopia.errors import InvariantBroken
from octopia.experiments.paper.visits import Played, Visit
from octopia.ids import BrokerId
from octopia.matching import Match
from octopia.protocol.messages import Publish
from octopia.tid.core import TidBroker
from octopia.tid.deliveries import local_of
from octopia.tid.messages import Tid
from octopia.tid.path_selection import Path, select_dynamically, select_statically
from octopia.tid.publishing import View as TidView
from octopia.tid.state import TidState
from octopia.tid.tables import BoundCopy

Step = Callable[[], object]

_NOWHERE = Decision(())


class Stop(Protocol):
    """A visit that can be replayed."""

    def match(self) -> object:
        """Find the matching subscriptions."""

    def select_statically(self) -> object:
        """Choose links by static routing."""

    def select_dynamically(self) -> object:
        """Choose links by dynamic routing."""

    def do_nothing(self) -> None:
        """Do nothing: the overhead of calling a step."""

    def check(self) -> None:
        """Raise InvariantBroken unless the steps find what the run found, while all links are free."""

    def check_congested(self) -> None:
        """Raise InvariantBroken unless dynamic routing sees that all links are congested, and searches for others."""


def replay(played: Played, visits: Iterable[Visit]) -> list[Stop]:
    """Return one stop per visit, ready to choose links."""
    return [_stop(played, visit) for visit in visits]


def _stop(played: Played, visit: Visit) -> Stop:
    broker, host = played.brokers[visit.broker], played.brokers[visit.id.host_broker]
    if isinstance(broker, OctopiaBroker):
        return _octopia_stop(broker.state, visit)
    if isinstance(broker, TidBroker) and isinstance(host, TidBroker):
        return _tid_stop(broker.state, host.state, visit)
    raise InvariantBroken(f"expected an OctopiA or TID broker at {visit.broker}, got a {type(broker).__name__}")


def _match(state: State, publication: Publication) -> Match:
    """Find the links and the ids of local subscriptions that match, as an OctopiA broker does."""
    match = state.prt.match_many([publication])[0]
    if match.numbers:
        state.prt.named(match.numbers)
    return match


@dataclasses.dataclass(frozen=True, slots=True)
class OctopiaStop:
    """A visit at an OctopiA broker; ``advertisements`` are those of the publisher, at its host broker only."""

    visit: Visit
    state: State
    advertisements: Sequence[CltEntry]
    matched: Match

    def match(self) -> Match:
        """Find the links and the ids of local subscriptions that match."""
        return _match(self.state, self.visit.publication)

    def select_statically(self) -> Decision:
        """Choose links by SPR."""
        wanted = self._wanted()
        if not wanted.alinks and not wanted.targets.bits:
            return _NOWHERE
        return route_statically(wanted, View(self.state))

    def select_dynamically(self) -> Decision:
        """Choose links by IDR."""
        wanted = self._wanted()
        if not wanted.alinks and not wanted.targets.bits:
            return _NOWHERE
        return route_dynamically(wanted, View(self.state))

    def do_nothing(self) -> None:
        """Do nothing: the overhead of calling a step."""

    def check(self) -> None:
        """Compare the steps with the run."""
        _expect(self.visit, "deliveries", self.visit.delivered, sorted(self.state.prt.named(self.match().numbers)))
        decision = self.select_statically()
        _expect(self.visit, "links of SPR", self.visit.sent_to, sorted(each.link for each in decision.forwards))
        _expect(self.visit, "decision of IDR", (decision,), (self.select_dynamically(),))

    def check_congested(self) -> None:
        """Expect case III wherever there are targets, because everything is congested."""
        expected = Case.THREE if self._wanted().targets else None
        _expect(self.visit, "case of IDR", (expected,), (self.select_dynamically().case,))

    def _wanted(self) -> Wanted:
        if self.advertisements:
            return wanted_at_host(self.state, self.matched, self.advertisements)
        sender = self.visit.came_from
        assert isinstance(sender, BrokerId)
        return wanted_beyond(self.state, self.matched, sender, None)


@dataclasses.dataclass(frozen=True, slots=True)
class AdaptiveStop:
    """A visit at an OctopiA broker with adaptive routing, as it routes where the short cut for free links fails."""

    visit: Visit
    state: State
    advertisements: Sequence[CltEntry]
    matched: Match

    def match(self) -> Match:
        """Find the links and the ids of local subscriptions that match."""
        return _match(self.state, self.visit.publication)

    def select_statically(self) -> AdaptiveDecision:
        """Choose links by adaptive routing: it has no other."""
        return self.select_dynamically()

    def select_dynamically(self) -> AdaptiveDecision:
        """Choose links by adaptive routing, with verdicts of its own for every publication."""
        interested = adapting.interested(self.state, self.matched.links)
        return route_adaptively(self._arrival(), interested, adapting.View(self.state))

    def do_nothing(self) -> None:
        """Do nothing: the overhead of calling a step."""

    def check(self) -> None:
        """Compare the steps with the run."""
        _expect(self.visit, "deliveries", self.visit.delivered, sorted(self.state.prt.named(self.match().numbers)))
        links = sorted(each.link for each in self.select_dynamically().dispatches)
        _expect(self.visit, "links of adaptive routing", self.visit.sent_to, links)

    def check_congested(self) -> None:
        """Expect a choice wherever a copy is sent on, because everything is congested."""
        _expect(self.visit, "choice of adaptive routing", (bool(self.visit.sent_to),), (self._has_chosen(),))

    def _has_chosen(self) -> bool:
        return bool(self.select_dynamically().steps)

    def _arrival(self) -> Arrival:
        if self.advertisements:
            return published(self.state.cluster, audience_of(self.state, self.advertisements))
        sender = self.visit.came_from
        assert isinstance(sender, BrokerId)
        return adapting.arrival_of(self.state, sender, Publish(self.visit.id, self.visit.publication, None, 0, 0.0))


@dataclasses.dataclass(frozen=True, slots=True)
class TidStop:
    """A visit at a TID broker."""

    visit: Visit
    state: TidState
    tid: Tid
    matched: Sequence[BoundCopy]

    def match(self) -> tuple[BoundCopy, ...]:
        """Find the bound copies that match."""
        return self.state.prt.matching(self.visit.publication, self.tid)

    def select_statically(self) -> list[Path]:
        """Choose paths by TID-S."""
        return select_statically(self.matched, self.visit.came_from)

    def select_dynamically(self) -> list[Path]:
        """Choose paths by TID-D."""
        return select_dynamically(self.matched, self.visit.came_from, TidView(self.state))

    def do_nothing(self) -> None:
        """Do nothing: the overhead of calling a step."""

    def check(self) -> None:
        """Compare the steps with the run."""
        _expect(self.visit, "deliveries", self.visit.delivered, local_of(self.match()))
        paths = self.select_statically()
        _expect(self.visit, "links of TID-S", self.visit.sent_to, [path.next_hop for path in paths])
        _expect(self.visit, "paths of TID-D", paths, self.select_dynamically())

    def check_congested(self) -> None:
        """Expect a search of the table wherever a copy is sent on, and the same paths, since all links are alike."""
        counters = self.state.counters
        before = counters.entries_scanned
        _expect(self.visit, "paths of TID-D", self.select_statically(), self.select_dynamically())
        searched = counters.entries_scanned > before
        _expect(self.visit, "search of TID-D", (bool(self.visit.sent_to),), (searched,))


def _octopia_stop(state: State, visit: Visit) -> OctopiaStop | AdaptiveStop:
    advertisements = state.clt.conforming(visit.publication, visit.publisher) if visit.is_at_host else ()
    [matched] = state.prt.match_many([visit.publication])
    return (AdaptiveStop if state.is_adaptive else OctopiaStop)(visit, state, advertisements, matched)


def _tid_stop(state: TidState, host: TidState, visit: Visit) -> TidStop:
    tid = host.srt.conforming(visit.publication, visit.publisher)[0].tid
    return TidStop(visit, state, tid, state.prt.matching(visit.publication, tid))


def _expect(visit: Visit, what: str, expected: Sequence[object], got: Sequence[object]) -> None:
    if list(expected) != list(got):
        raise InvariantBroken(
            f"expected the {what} of publication {visit.id} at {visit.broker} to be {_shown(expected)}, as in the run, "
            f"got {_shown(got)}"
        )


def _shown(found: Sequence[object]) -> str:
    return ", ".join(map(str, found)) or "none"
