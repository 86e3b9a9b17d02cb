from octopia.broker.tables import Clt, CltEntry, Prt, PrtEntry
from octopia.content import parse_filter
from octopia.ids import AdvertisementId, ClientId, Peer, SubscriptionId
from octopia.matching import Match, ScanAdvertisements, ScanSubscriptions
from octopia.protocol import ClusterIndexVector
from support import at, pub

P = ClientId("P")


def advertised(number: int, text: str, last_hop: Peer = P) -> CltEntry:
    civ = ClusterIndexVector.of([0], 3)
    return CltEntry(AdvertisementId(at("b.0"), 1, number), parse_filter(text), last_hop, civ)


def subscribed(number: int, text: str, last_hop: Peer) -> PrtEntry:
    return PrtEntry(SubscriptionId(at("b.0"), 1, number), parse_filter(text), last_hop)


def clt_of(*entries: CltEntry) -> Clt:
    clt = Clt(ScanAdvertisements())
    for entry in entries:
        clt.add(entry)
    return clt


def prt_of(*entries: PrtEntry) -> Prt:
    prt = Prt(ScanSubscriptions())
    for entry in entries:
        prt.add(entry)
    return prt


def test_the_clt_gives_back_what_was_stored_in_the_order_it_came():
    late, early = advertised(1, "x > 0"), advertised(0, "y > 0")
    clt = clt_of(late, early)
    assert list(clt) == [late, early]
    assert len(clt) == 2
    assert late.id in clt
    assert clt.get(early.id) is early
    assert clt.get(AdvertisementId(at("b.0"), 1, 9)) is None


def test_what_is_removed_from_the_clt_is_found_no_more():
    entry = advertised(0, "x > 0")
    clt = clt_of(entry)
    assert clt.remove(entry.id) is entry
    assert entry.id not in clt
    assert clt.intersected_by(parse_filter("x > 5")) == []
    assert clt.conforming(pub(x=1), P) == []


def test_the_clt_answers_by_id():
    second, first, other = advertised(1, "x > 0"), advertised(0, "x > 2"), advertised(2, "y > 0")
    assert clt_of(second, first, other).intersected_by(parse_filter("x > 5")) == [first, second]


def test_a_publication_conforms_to_its_own_publishers_entries_only():
    mine, narrow, theirs = advertised(0, "x > 0"), advertised(1, "x > 9"), advertised(2, "x > 0", ClientId("Q"))
    neighbours = advertised(3, "x > 0", at("b.1"))
    assert clt_of(mine, narrow, theirs, neighbours).conforming(pub(x=1), P) == [mine]


def test_an_entry_is_hosted_here_if_it_came_from_a_client():
    assert advertised(0, "x > 0").is_hosted_here
    assert not advertised(0, "x > 0", at("b.1")).is_hosted_here


def test_the_prt_gives_back_what_was_stored():
    entry = subscribed(0, "x > 0", at("a.0"))
    prt = prt_of(entry)
    assert list(prt) == [entry]
    assert prt[entry.id] is entry
    assert prt.get(entry.id) is entry
    assert entry.id in prt
    assert prt.remove(entry.id) is entry
    assert len(prt) == 0
    assert prt.get(entry.id) is None


def test_the_prt_names_links_once_and_local_subscriptions_one_by_one():
    prt = prt_of(
        subscribed(0, "x > 0", at("c.0")),
        subscribed(1, "x > 1", at("c.0")),
        subscribed(2, "x > 2", at("a.0")),
        subscribed(4, "x > 3", P),
        subscribed(3, "x > 3", P),
        subscribed(5, "x > 99", P),
    )
    matched, unmatched = prt.match_many([pub(x=5), pub(x=0)])
    assert matched.links == (at("a.0"), at("c.0"))
    assert {each.number for each in prt.named(matched.numbers)} == {3, 4}
    assert unmatched == Match((), ())


def test_the_prt_tells_whether_anything_intersects_an_advertisement():
    prt = prt_of(subscribed(0, "x > 5", at("a.0")))
    assert prt.any_intersecting(parse_filter("x > 0"))
    assert not prt.any_intersecting(parse_filter("x < 3"))
    assert not prt.any_intersecting(parse_filter("y > 0"))
