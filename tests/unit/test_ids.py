import pickle

import pytest

from octopia.errors import UnknownBroker
from octopia.ids import AdvertisementId, BrokerId, ClientId, PublicationId, SubscriptionId


def test_brokers_are_ordered_by_region_then_by_cluster_as_a_number():
    names = ["b.2", "a.10", "B.0", "a.9", "aa.0"]
    assert [str(each) for each in sorted(map(BrokerId.parse, names))] == ["B.0", "a.9", "a.10", "aa.0", "b.2"]


@pytest.mark.parametrize("text", ["b.3", "A.0", "region_7.63"])
def test_the_text_form_reads_back(text: str):
    assert str(BrokerId.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "b", "b.", ".3", "b.03", "b.-1", "b.3 ", " b.3", "b.3\n", "3.b", "b.3.4", "b.9999999"]
)
def test_anything_else_is_refused(text: str):
    with pytest.raises(UnknownBroker, match=r"such as b\.3"):
        BrokerId.parse(text)


def test_ids_of_different_kinds_are_never_equal():
    host = BrokerId("b", 3)
    kinds = [AdvertisementId(host, 1, 2), SubscriptionId(host, 1, 2), PublicationId(host, 1, 2)]
    assert len({*map(hash, kinds)} | {*kinds}) >= 3
    assert kinds[0] != kinds[1] != kinds[2]
    assert ClientId("b.3") != BrokerId("b", 3)


@pytest.mark.parametrize(
    "value",
    [BrokerId("b", 3), ClientId("C"), AdvertisementId(BrokerId("b", 3), 1, 2), PublicationId(BrokerId("b", 3), 1, 2)],
)
def test_ids_survive_pickling_and_cannot_be_changed(value: object):
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert hash(copy) == hash(value)
    with pytest.raises(AttributeError):
        value.number = 5


def test_ids_print_host_incarnation_and_number():
    assert str(SubscriptionId(BrokerId("b", 3), 2, 7)) == "b.3/2/7"
