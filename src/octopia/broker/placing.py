"""From accepted publications to copies in output queues: back-pressure that cannot deadlock.

Each (link, class) has an input of its own. A publication at its head is routed once; its copies are then fixed, and are
placed one by one as their queues have room. While any waits, the head stays, and with it the publications behind it: of
this class and link, and of no other. When all copies are placed, the driver is told, and returns the sender's credit.

The class of a publication is the number of clusters it must still reach. Along the tree of a cluster it never rises,
and over an iLink it falls, so that waiting runs from higher classes to lower ones, and at last along trees: never in
a ring.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import TypeAlias

from octopia.broker import publishing
from octopia.broker.interface import Placed
from octopia.broker.publishing import Addressed
from octopia.broker.state import Input, State
from octopia.ids import BrokerId, ClientId, Peer
from octopia.protocol.messages import Publish, PublishRequest

Key: TypeAlias = tuple[Peer, int]
Frame: TypeAlias = Publish | PublishRequest


def accept_from_client(state: State, publisher: ClientId, requests: Sequence[PublishRequest]) -> None:
    """Take publications that a client sent together, and route those that nothing holds back."""
    if _must_wait(state):
        _enter(state, publisher, requests)
        return
    # Nothing waits and nothing is bounded: everything can be matched together and placed at once.
    for copies in publishing.route_from_client(state, publisher, requests):
        for link, copy in copies:
            state.forward(link, copy)
    state.effects.placed.append(Placed(publisher, 0, len(requests)))


def accept_from_broker(state: State, sender: BrokerId, publications: Sequence[Publish]) -> None:
    """Take publications that arrived together from a neighbour, and route those that nothing holds back."""
    if _must_wait(state):
        _enter(state, sender, publications)
        return
    # All are matched at once, but each is routed for itself: the copies of one change what the next one sees.
    matches = state.prt.match_many([each.publication for each in publications])
    for publication, match in zip(publications, matches, strict=True):
        for link, copy in publishing.route_from_broker(state, sender, publication, match):
            state.forward(link, copy)
    if len(publications) == 1:
        state.effects.placed.append(Placed(sender, publications[0].traffic_class, 1))
        return
    for traffic_class, count in Counter(each.traffic_class for each in publications).items():
        state.effects.placed.append(Placed(sender, traffic_class, count))


def room_was_made(state: State, link: BrokerId, traffic_class: int) -> None:
    """Place copies that waited for a class of a queue, in the order in which they came to wait."""
    waiting = state.blocked.get((link, traffic_class))
    queue = state.queues[link]
    while waiting and queue.has_room(traffic_class):
        key = waiting.popleft()
        placing = state.inputs[key].placing
        state.forward(link, placing.pop((link, traffic_class)))
        if not placing:
            _report_placed(state, key)
            _resume(state, key)
    if not waiting:
        state.blocked.pop((link, traffic_class), None)


def link_went_down(state: State, link: BrokerId) -> None:
    """Place everything that waited for a link: while it is down, other limits hold (D10)."""
    for blocked_link, traffic_class in sorted(state.blocked):
        if blocked_link == link:
            room_was_made(state, link, traffic_class)


def client_left(state: State, client: ClientId) -> None:
    """Forget the publications of a client that were not routed; copies of one that was are still placed."""
    key = (client, 0)
    if key in state.inputs:
        state.inputs[key].waiting.clear()
        _resume(state, key)


def resume_all(state: State) -> None:
    """Route what has waited for this broker to be ready."""
    for key in sorted(state.inputs, key=lambda key: (str(key[0]), key[1])):
        _resume(state, key)


def _must_wait(state: State) -> bool:
    """Tell whether publications may have to wait: for room, for others before them, or for this broker's recovery."""
    return bool(state.settings.queue_capacity or state.inputs) or not state.accepts_data


def _enter(state: State, source: Peer, frames: Sequence[Frame]) -> None:
    """Put publications into their inputs, and route those whose turn it is."""
    for frame in frames:
        key = (source, frame.traffic_class if isinstance(frame, Publish) else 0)
        state.inputs.setdefault(key, Input()).waiting.append(frame)
        _resume(state, key)


def _resume(state: State, key: Key) -> None:
    """Work through an input until its head has to wait, or until it is empty."""
    known = state.inputs[key]
    while known.waiting and not known.placing and state.accepts_data:
        frame = known.waiting.popleft()
        _place(state, key, _route(state, key[0], frame))
        if not known.placing:
            _report_placed(state, key)
    if not known.waiting and not known.placing:
        del state.inputs[key]


def _place(state: State, key: Key, copies: Sequence[Addressed]) -> None:
    """Queue the copies that have room, and let the others wait behind whoever waits already."""
    for link, copy in copies:
        place = (link, copy.traffic_class)
        if place not in state.blocked and state.queues[link].has_room(copy.traffic_class):
            state.forward(link, copy)
        else:
            state.blocked.setdefault(place, deque()).append(key)
            state.inputs[key].placing[place] = copy


def _report_placed(state: State, key: Key) -> None:
    state.effects.placed.append(Placed(key[0], key[1], 1))


def _route(state: State, source: Peer, frame: Frame) -> list[Addressed]:
    """Route a publication from one link, and return its copies."""
    if isinstance(source, ClientId):
        assert isinstance(frame, PublishRequest)
        return next(publishing.route_from_client(state, source, [frame]))
    assert isinstance(frame, Publish)
    [match] = state.prt.match_many([frame.publication])
    return publishing.route_from_broker(state, source, frame, match)
