"""Placement of copies in output queues: back-pressure without deadlock.

Publications that arrive together are matched together. They are routed one after the other, since the copies of one
change the queues that the next one sees. This is the only path, for bounded and unbounded queues.

Each (link, class) has its own input, which exists while something waits there. The copies of a routed publication are
fixed, and are placed one by one as their queues have room. While a copy waits, the publications of the same link and
class wait behind it; no others do. Once all copies are placed, the driver is notified and returns the sender's credit.

The class of a publication is the number of clusters that it must still reach. It never rises along the tree of a
cluster, and it falls over an iLink. So higher classes wait for lower ones, and within a class waits follow a tree:
there is no cycle.

Plain Python that Cython compiles (``placing.pxd`` has the C types): every batch of publications passes here.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, TypeAlias

from octopia.broker import adapting, publishing
from octopia.broker.adapting import Outgoing
from octopia.broker.express import NO_VERSION, Deliveries, Entrance, Roads, contents_of
from octopia.broker.interface import Detail, Placed
from octopia.broker.state import Input, State, Task
from octopia.content.encoded import IS_COMPILED
from octopia.ids import BrokerId, Peer
from octopia.matching import Match
from octopia.protocol.duties import Duties, Lane
from octopia.protocol.messages import Publish, PublishRequest

Key: TypeAlias = tuple[Peer, int]

_CHUNK_MAX = 64

_DELIVERIES, _ALL = Detail.DELIVERIES, Detail.ALL


def accept(state: State, source: Peer, publications: list[Publish] | list[PublishRequest]) -> None:
    """Accept publications that arrived together over one link, and route those that need not wait."""
    if not state.accepts_data:
        for publication in publications:
            state.inputs.setdefault((source, publication.traffic_class), Input()).waiting.append(publication)
        return
    view = adapting.View(state) if state.is_adaptive else None
    # In plain Python, preparing the express way costs more than it saves for one publication.
    express = _express_way(state, source, view) if IS_COMPILED or len(publications) > 1 else None
    matches = state.prt.match_many(contents_of(publications))
    passed = 0
    if express is not None and _is_way_free(state, source):
        passed = _pass_on(state, source, express, publications, matches, 0)
    if passed == len(publications):
        state.effects.placed.append(Placed(source, 0, passed))
    else:
        _accept_rest(state, source, view, express, publications, matches, passed)


def _accept_rest(
    state: State,
    source: Peer,
    view: adapting.View | None,
    express: Roads | Entrance | None,
    publications: list[Publish] | list[PublishRequest],
    matches: list[Match],
    index: int,
) -> None:
    """Route publications from an index on: the first one cannot take the express way."""
    placed: dict[int, int] = {0: index} if index else {}
    inputs, route, size = state.inputs, publishing.router_for(state, source, view), len(publications)
    while index < size:
        publication, match = publications[index], matches[index]
        index += 1
        traffic_class = publication.traffic_class
        key = (source, traffic_class)
        if key in inputs:
            # Others wait ahead of it. It is matched again in its turn, since tables may change until then.
            inputs[key].waiting.append(publication)
        elif _place(state, key, route(publication, match)):
            placed[traffic_class] = placed.get(traffic_class, 0) + 1
        if express is not None and index < size and _is_way_free(state, source):
            passed = _pass_on(state, source, express, publications, matches, index)
            if passed > index:
                placed[0] = placed.get(0, 0) + passed - index
                index = passed
    for traffic_class, count in placed.items():
        state.effects.placed.append(Placed(source, traffic_class, count))


def _express_way(state: State, source: Peer, view: adapting.View | None) -> Roads | Entrance:
    """Return the express way of the publications that arrived together over a link."""
    if not isinstance(source, BrokerId):
        return publishing.entrance_for(state, source, view)
    roads = state.roads.get(source)
    if roads is None or roads.queues is not state.queues:
        roads = publishing.make_roads(state, source)
    roads.begin(state.now_ms, view, state.for_clients, NO_VERSION if state.backlog else state.prt.version)
    return roads


def _pass_on(
    state: State,
    source: Peer,
    express: Roads | Entrance,
    publications: list[Publish] | list[PublishRequest],
    matches: list[Match],
    index: int,
) -> int:
    """Let publications from an index on take the express way, and return the index of the first that cannot."""
    if isinstance(express, Roads):
        return _pass_from_broker(state, source, express, publications, matches, index)
    return _pass_from_client(state, express, publications, matches, index)


def _pass_from_broker(
    state: State, source: Peer, roads: Roads, publications: list[Any], matches: list[Match], index: int
) -> int:
    try:
        return roads.pass_on(publications, matches, index)
    finally:  # A failure must not leave copies without notice.
        state.effects.ready.update(roads.reached)
        _count_deliveries(state, roads.deliveries)
        if roads.unwanted:
            publishing.count_unwanted(state, source, roads)


def _pass_from_client(
    state: State, entrance: Entrance, publications: list[Any], matches: list[Match], index: int
) -> int:
    entrance.next_number = state.next_publication
    try:
        return entrance.pass_on(publications, matches, index)
    finally:  # A failure must not use a number twice, or leave copies without notice.
        state.effects.ready.update(entrance.reached)
        state.next_publication = entrance.next_number
        _count_deliveries(state, entrance.deliveries)


def _count_deliveries(state: State, deliveries: Deliveries) -> None:
    state.counters.delivered += deliveries.delivered
    deliveries.delivered = 0


def _is_way_free(state: State, source: Peer) -> bool:
    """Return whether plain copies from a link may take the express way: nothing waits, and no decision is traced."""
    is_traced = state.settings.detail >= (_ALL if isinstance(source, BrokerId) else _DELIVERIES)
    return not is_traced and not state.blocked and (source, 0) not in state.inputs and not state.unheard_neighbours


def room_was_made(state: State, link: BrokerId, traffic_class: int) -> None:
    """Place copies that waited for room in one class of a queue, in order of arrival."""
    waiting = state.blocked.get((link, traffic_class))
    queue = state.queues[link]
    while waiting and queue.has_room(traffic_class):
        key = waiting.popleft()
        placing = state.inputs[key].placing
        copy, duties = placing.pop((link, traffic_class))
        if duties is None or state.carries_data(link):
            state.forward(link, copy, traffic_class, duties)
        else:
            adapting.take_back(state, link, copy, duties)
        if not placing:
            state.effects.placed.append(Placed(*key, 1))
            _resume(state, key)
    if not waiting:
        state.blocked.pop((link, traffic_class), None)


def link_went_down(state: State, link: BrokerId) -> None:
    """Place all copies that waited for a link: while it is down, other limits apply (D10); a closed one has room."""
    for blocked_link, traffic_class in sorted(state.blocked):
        if blocked_link == link:
            room_was_made(state, link, traffic_class)


def resume_all(state: State) -> None:
    """Route the publications that waited while this broker did not accept data."""
    for key in sorted(state.inputs, key=lambda key: (str(key[0]), key[1])):
        _resume(state, key)


def _resume(state: State, key: Key) -> None:
    """Route the publications of an input until one has to wait or the input is empty."""
    known, placed, chunk = state.inputs[key], 0, 1
    route = publishing.router_for(state, key[0], adapting.View(state) if state.is_adaptive else None)
    while known.waiting and not known.placing and state.accepts_data:
        # A larger chunk is cheaper per publication, but all matches behind a publication that has to wait are wasted.
        publications = list(itertools.islice(known.waiting, chunk))
        chunk = min(2 * chunk, _CHUNK_MAX)
        matches = state.prt.match_many([each.publication for each in publications])
        for publication, match in zip(publications, matches, strict=True):
            known.waiting.popleft()
            if not _place(state, key, route(publication, match)):
                break
            placed += 1
    if placed:
        state.effects.placed.append(Placed(*key, placed))
    if not known.waiting and not known.placing:
        del state.inputs[key]
        if key[0] in state.leaving:
            state.put_off(Task.LEAVE, key[0], state.leaving.pop(key[0]))


def _place(state: State, key: Key, copies: list[Outgoing]) -> bool:
    """Queue each copy that has room, let the others wait, and return whether all were queued."""
    is_placed = True
    for link, copy, duties in copies:  # Static parts are added to the end.
        traffic_class = copy.traffic_class
        place = (link, traffic_class)
        queue = state.queues[link]
        if duties is not None and queue.has_rerouted and adapting.join(state, link, copy, duties):
            continue
        if place not in state.blocked and queue.has_room(traffic_class):
            state.forward(link, copy, traffic_class, duties)
        elif duties is not None and traffic_class == Lane.REROUTED:
            copies += adapting.fall_back(state, link, copy, duties)
        else:
            _block(state, key, place, copy, duties)
            is_placed = False
    return is_placed


def _block(state: State, key: Key, place: tuple[BrokerId, int], copy: Publish, duties: Duties | None) -> None:
    """Let a copy wait for room in its lane; two static parts of one publication for one lane become one."""
    placing = state.inputs.setdefault(key, Input()).placing
    before = placing.get(place)
    if before is None:
        state.blocked.setdefault(place, deque()).append(key)
        placing[place] = copy, duties
    else:
        waiting = before[1]
        assert waiting is not None
        assert duties is not None
        placing[place] = adapting.joined(state, place[0], copy, waiting, duties)
