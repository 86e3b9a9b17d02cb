"""A client gets exactly what its subscription and its read filter both match, and publishes what it may."""

from __future__ import annotations

from content_strategies import NAMES, declarations, disjunctions, publications
from hypothesis import given, reject
from hypothesis import strategies as st

from octopia.content import Disjunction, Publication, conforms, conjoin, covers, matches
from octopia.errors import FilterTooLarge
from octopia.node import Permissions
from octopia.node.permissions import EVERYTHING, NOTHING
from octopia.protocol.messages import AdvertiseRequest, PublishRequest, SubscribeRequest


def whole(one: Disjunction, other: Disjunction) -> Disjunction:
    """Return a conjunction; reject an example in which it exceeds the limits of a filter, as two large ones may."""
    try:
        return conjoin(one, other)
    except FilterTooLarge:
        reject()


@given(disjunctions(), disjunctions(), publications())
def test_a_conjunction_matches_what_both_match(one: Disjunction, other: Disjunction, publication: Publication):
    both = matches(one, publication) and matches(other, publication)
    assert matches(whole(one, other), publication) is both


@given(disjunctions(), disjunctions(), st.lists(publications(), min_size=1, max_size=5))
def test_a_subscription_delivers_exactly_what_it_and_the_read_filter_match(
    interest: Disjunction, read: Disjunction, published: list[Publication]
):
    whole(interest, read)
    permissions = Permissions("reader", read=read)
    allowed, refusals = permissions.screen([SubscribeRequest(0, interest)])
    if read == NOTHING:
        assert allowed == []
        assert [each.reason for each in refusals] == ["the token reader may not read"]
        return
    assert refusals == []
    [request] = allowed
    assert isinstance(request, SubscribeRequest)
    for publication in published:
        wanted = matches(interest, publication) and matches(read, publication)
        assert matches(request.interest, publication) is wanted


@given(declarations(), disjunctions(), publications())
def test_whatever_is_published_matches_the_advertise_filter(
    offer: Disjunction, advertise: Disjunction, publication: Publication
):
    permissions = Permissions("feed", advertise=advertise)
    allowed, _ = permissions.screen([AdvertiseRequest(0, offer), PublishRequest(1, publication, 0.0)])
    is_allowed = any(isinstance(each, PublishRequest) for each in allowed)
    assert is_allowed is matches(advertise, publication)
    if any(isinstance(each, AdvertiseRequest) for each in allowed):
        assert covers(advertise, offer)
        if matches(offer, publication) and conforms(offer, publication):
            assert is_allowed


@given(disjunctions(), st.sets(st.sampled_from(NAMES)), publications(), publications())
def test_what_is_hidden_has_no_influence_on_what_a_client_sees(
    interest: Disjunction, hidden: set[str], one: Publication, other: Publication
):
    """Two publications that differ in hidden attributes only look the same and are delivered alike."""
    permissions = Permissions("reader", read=EVERYTHING, hide=tuple(sorted(hidden)))
    open_part = {name: value for name, value in one.attributes.items() if name not in hidden}
    secrets = {name: value for name, value in other.attributes.items() if name in hidden}
    allowed, _ = permissions.screen([SubscribeRequest(0, interest)])
    if not allowed or not open_part:
        return
    [request] = allowed
    assert isinstance(request, SubscribeRequest)
    twin = Publication({**open_part, **secrets}, one.payload)
    assert matches(request.interest, one) is matches(request.interest, twin)
    assert permissions.shown(one) == permissions.shown(twin) == Publication(open_part, one.payload)
