"""Hypothesis strategies for all that travels over a connection."""

from __future__ import annotations

import math
from typing import Any

from content_strategies import any_names, any_texts, any_values, disjunctions
from hypothesis import strategies as st

from octopia.content import Publication
from octopia.ids import AdvertisementId, BrokerId, PublicationId, SubscriptionId
from octopia.protocol import (
    Ack,
    Cause,
    CloseCode,
    Closing,
    ClusterIndexVector,
    Frame,
    Grant,
    Hello,
    Opening,
    Role,
    WireItem,
)
from octopia.protocol import messages as m
from octopia.protocol.duties import Lane, Origin, crossings
from octopia.protocol.registry import REGISTRY
from octopia.tid import messages as tid

numbers = st.one_of(st.integers(0, 200), st.integers(0, 2**64 - 1))
times = st.one_of(st.just(0.0), st.floats(0.0, 1e18, allow_nan=False))
flags = st.booleans()
regions = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True)
brokers = st.builds(BrokerId, regions, st.integers(0, 63))
advertisement_ids = st.builds(AdvertisementId, brokers, numbers, numbers)
subscription_ids = st.builds(SubscriptionId, brokers, numbers, numbers)
publication_ids = st.builds(PublicationId, brokers, numbers, numbers)
versions = st.builds(m.Version, numbers, numbers)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples of a few."""
    return st.lists(strategy, max_size=3).map(tuple)


@st.composite
def civs(draw: st.DrawFn) -> ClusterIndexVector:
    """Vectors of every legal width."""
    clusters = draw(st.integers(1, 64))
    return ClusterIndexVector(draw(st.integers(0, 2**clusters - 1)), clusters)


publications = st.builds(
    Publication,
    st.dictionaries(any_names, st.one_of(any_values, st.sampled_from((math.inf, -math.inf))), min_size=1, max_size=20),
    st.binary(max_size=20),
)
hops = st.integers(0, 2**32 - 1)
detours = st.builds(
    m.Detour,
    st.sampled_from(Lane),
    st.integers(0, 255),
    st.sampled_from(Origin) | regions,
    st.dictionaries(regions, numbers.filter(bool), max_size=3).map(crossings),
)
ads, subs = some(advertisement_ids), some(subscription_ids)
filters = disjunctions()

MESSAGES: dict[type, st.SearchStrategy[Any]] = {
    m.Advertise: st.builds(m.Advertise, advertisement_ids, filters),
    m.Unadvertise: st.builds(m.Unadvertise, advertisement_ids),
    m.Subscribe: st.builds(m.Subscribe, subscription_ids, filters),
    m.Unsubscribe: st.builds(m.Unsubscribe, subscription_ids),
    m.CivSet: st.builds(m.CivSet, ads, versions),
    m.CivUnset: st.builds(m.CivUnset, ads, versions),
    m.CivNone: st.builds(m.CivNone, ads, versions),
    m.CivAck: st.builds(m.CivAck, some(st.tuples(advertisement_ids, versions))),
    m.Confirm: st.builds(m.Confirm, subs),
    m.SubscriptionDigest: st.builds(m.SubscriptionDigest, subs, subs, flags),
    m.AdvertisementDigest: st.builds(m.AdvertisementDigest, ads),
    m.CivState: st.builds(m.CivState, ads, ads, versions),
    m.Fetch: st.builds(m.Fetch, subs, ads),
    tid.TidAdvertise: st.builds(tid.TidAdvertise, advertisement_ids, filters, flags),
    tid.TidUnadvertise: st.builds(tid.TidUnadvertise, advertisement_ids),
    tid.TidSubscribe: st.builds(tid.TidSubscribe, subscription_ids, filters, advertisement_ids),
    tid.TidUnsubscribe: st.builds(tid.TidUnsubscribe, subscription_ids),
    m.AdvertiseRequest: st.builds(m.AdvertiseRequest, numbers, filters, flags, times),
    m.UnadvertiseRequest: st.builds(m.UnadvertiseRequest, numbers),
    m.SubscribeRequest: st.builds(m.SubscribeRequest, numbers, filters, times, times),
    m.ProduceRequest: st.builds(m.ProduceRequest, st.text(max_size=255)),
    m.Produced: st.builds(m.Produced, any_texts, numbers),
    m.Repeated: st.builds(m.Repeated, numbers, numbers),
    m.UnsubscribeRequest: st.builds(m.UnsubscribeRequest, numbers),
    m.Refused: st.builds(m.Refused, any_texts, numbers, any_texts),
    m.Confirmed: st.builds(m.Confirmed, any_texts, numbers),
    m.Unconfirmed: st.builds(m.Unconfirmed, any_texts, numbers, some(brokers)),
    m.CutOff: st.builds(m.CutOff, numbers),
    m.Lost: st.builds(m.Lost, numbers),
    m.Gap: st.builds(m.Gap, st.sampled_from(Cause), numbers),
    m.GapNotice: st.builds(m.GapNotice, st.sampled_from(Cause), numbers, numbers),
    m.LinkStatuses: st.builds(
        m.LinkStatuses,
        st.dictionaries(regions, times, max_size=3).map(lambda works: tuple(sorted(works.items()))),
        st.sets(regions, max_size=3).map(lambda down: tuple(sorted(down))),
        numbers,
    ),
    m.Publish: st.builds(
        m.Publish, publication_ids, publications, st.none() | civs(), hops, times, st.none() | detours, flags
    ),
    m.PublishRequest: st.builds(m.PublishRequest, numbers, publications, times),
    m.Deliver: st.builds(
        m.Deliver, publication_ids, publications, st.lists(numbers, min_size=1, max_size=3).map(tuple), hops, times
    ),
    tid.TidPublish: st.builds(tid.TidPublish, publication_ids, publications, advertisement_ids, hops, times),
}
assert MESSAGES.keys() == set(REGISTRY.message_types)


def frame(sequence: int, message: m.Message) -> Frame:
    """Frame a message as a session does."""
    return Frame(sequence, message)


grants = st.builds(
    Grant,
    numbers,
    numbers,
    st.dictionaries(st.integers(0, 64), numbers, max_size=4).map(lambda placed: tuple(sorted(placed.items()))),
)
acknowledgements = st.builds(Ack, numbers, grants, st.floats(0.0, 1e9), flags)
client_names = st.text(min_size=1, max_size=10).filter(str.isprintable)
meant = st.one_of(st.just(""), brokers.map(str))
openings = st.one_of(
    st.builds(Opening, st.just(Role.CLIENT), client_names, st.just(""), meant),
    st.builds(Opening, st.just(Role.BROKER), brokers.map(str), st.from_regex(r"[0-9a-f]{1,64}", fullmatch=True), meant),
)
closings = st.builds(Closing, st.sampled_from(CloseCode), any_texts)
messages = st.sampled_from(list(MESSAGES.values())).flatmap(lambda chosen: chosen)
frames = st.builds(frame, numbers, messages)
items: st.SearchStrategy[WireItem] = st.one_of(
    frames,
    st.builds(Hello, numbers.filter(bool), numbers, numbers, grants, flags),
    acknowledgements,
    openings,
    closings,
)
