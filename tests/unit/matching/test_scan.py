from octopia.content import parse_filter
from octopia.ids import AdvertisementId, ClientId, SubscriptionId
from octopia.matching import SCAN, Match
from support import at, pub

HERE = at("b.0")
S, P = ClientId("S"), ClientId("P")


def sub(number: int) -> SubscriptionId:
    return SubscriptionId(HERE, 1, number)


def adv(number: int) -> AdvertisementId:
    return AdvertisementId(HERE, 1, number)


def test_an_empty_table_matches_nothing():
    subscriptions = SCAN.subscriptions()
    assert len(subscriptions) == 0
    assert subscriptions.match(pub(x=1)) == Match((), ())
    assert subscriptions.match_many([]) == []


def test_links_are_sorted_by_broker_and_local_subscriptions_are_named_by_number():
    subscriptions = SCAN.subscriptions()
    numbers = {
        link: subscriptions.add(sub(number), parse_filter("x > 0"), link)
        for number, link in [(5, at("c.0")), (4, S), (3, at("a.10")), (2, at("a.9")), (1, P)]
    }
    assert subscriptions.match(pub(x=1)) == Match((at("a.9"), at("a.10"), at("c.0")), (numbers[S], numbers[P]))


def test_the_number_of_a_removed_subscription_is_given_again():
    subscriptions = SCAN.subscriptions()
    numbers = [subscriptions.add(sub(each), parse_filter("x > 0"), S) for each in range(3)]
    assert len(set(numbers)) == 3
    assert subscriptions.remove(sub(1)) == numbers[1]
    assert subscriptions.add(sub(3), parse_filter("x > 5"), S) == numbers[1]
    assert subscriptions.match(pub(x=9)).local == (numbers[0], numbers[2], numbers[1])


def test_a_subscription_with_or_counts_once():
    subscriptions = SCAN.subscriptions()
    number = subscriptions.add(sub(0), parse_filter("x > 0 OR y > 0"), S)
    assert subscriptions.match(pub(x=1, y=1)).local == (number,)


def test_match_many_is_match_of_each():
    subscriptions = SCAN.subscriptions()
    subscriptions.add(sub(0), parse_filter("x > 2"), S)
    subscriptions.add(sub(1), parse_filter("x > 4"), at("a.0"))
    publications = [pub(x=value) for value in range(7)]
    assert subscriptions.match_many(publications) == [subscriptions.match(each) for each in publications]


def test_a_removed_subscription_neither_matches_nor_intersects():
    subscriptions = SCAN.subscriptions()
    subscriptions.add(sub(0), parse_filter("x > 0"), S)
    subscriptions.remove(sub(0))
    assert subscriptions.match(pub(x=1)) == Match((), ())
    assert not subscriptions.any_intersecting(parse_filter("x > 0"))
    assert subscriptions.intersecting(parse_filter("x > 0")) == []


def test_intersecting_subscriptions_come_by_id():
    subscriptions = SCAN.subscriptions()
    for number, text in [(3, "x > 0"), (1, "x > 5"), (2, "x < 0")]:
        subscriptions.add(sub(number), parse_filter(text), S)
    assert subscriptions.intersecting(parse_filter("x > 1")) == [sub(1), sub(3)]


def test_intersected_advertisements_come_by_id():
    advertisements = SCAN.advertisements()
    for number, text in [(3, "x > 0"), (1, "x > 5"), (2, "x < 0")]:
        advertisements.add(adv(number), parse_filter(text), P)
    assert advertisements.intersected_by(parse_filter("x > 1")) == [adv(1), adv(3)]
    advertisements.remove(adv(1))
    assert advertisements.intersected_by(parse_filter("x > 1")) == [adv(3)]
    assert len(advertisements) == 2


def test_only_the_advertisements_of_the_link_conform():
    advertisements = SCAN.advertisements()
    advertisements.add(adv(1), parse_filter("x > 0"), P)
    advertisements.add(adv(0), parse_filter("x < 9"), P)
    advertisements.add(adv(2), parse_filter("x > 0"), S)
    assert advertisements.conforming(pub(x=1), P) == [adv(0), adv(1)]
    assert advertisements.conforming(pub(x=1), S) == [adv(2)]
    assert advertisements.conforming(pub(x=1, y=1), P) == []
