import dataclasses
import pickle

import pytest

from octopia.errors import InvalidOverlay, UnknownBroker
from octopia.ids import BrokerId, ClientId, LinkKind
from octopia.overlay.neighbourhood import Neighbourhood


def brokers(text: str) -> tuple[BrokerId, ...]:
    return tuple(BrokerId.parse(each) for each in text.split())


B3 = Neighbourhood(BrokerId("b", 3), brokers("a.3 c.3"), brokers("b.0 b.1 b.2"), 4)


def test_kind_of_link():
    assert B3.kind_of(BrokerId("a", 3)) is LinkKind.ALINK
    assert B3.kind_of(BrokerId("b", 0)) is LinkKind.ILINK
    assert B3.kind_of(ClientId("a.3")) is LinkKind.CLIENT


@pytest.mark.parametrize("stranger", ["b.3", "a.0", "d.3", "b.4"])
def test_strangers_are_no_neighbours(stranger: str):
    with pytest.raises(UnknownBroker, match=rf"expected a neighbour of b\.3, got {stranger}"):
        B3.kind_of(BrokerId.parse(stranger))


def test_secondary_neighbour_by_cluster():
    assert [str(B3.secondary_neighbour(cluster)) for cluster in range(3)] == ["b.0", "b.1", "b.2"]
    b1 = Neighbourhood(BrokerId("b", 1), (), brokers("b.0 b.2 b.3"), 4)
    assert [str(b1.secondary_neighbour(cluster)) for cluster in (0, 2, 3)] == ["b.0", "b.2", "b.3"]
    for cluster in (-1, 3, 4):
        with pytest.raises(UnknownBroker, match=f"got {cluster}"):
            B3.secondary_neighbour(cluster)


def test_edge_and_inner():
    assert not B3.is_edge
    assert Neighbourhood(BrokerId("a", 0), brokers("b.0"), (), 1).is_edge
    assert Neighbourhood(BrokerId("a", 0), (), (), 1).is_edge


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"primary_neighbours": brokers("a.3 c.2")}, "in other regions of its cluster, got a.3, c.2"),
        ({"primary_neighbours": brokers("b.3")}, "in other regions of its cluster"),
        ({"primary_neighbours": brokers("c.3 a.3")}, "sorted, got c.3, a.3"),
        ({"primary_neighbours": brokers("a.3 a.3")}, "sorted"),
        ({"secondary_neighbours": brokers("b.0 b.1")}, "to be b.0, b.1, b.2, got b.0, b.1"),
        ({"secondary_neighbours": brokers("b.1 b.0 b.2")}, "to be b.0, b.1, b.2, got b.1, b.0, b.2"),
        ({"secondary_neighbours": brokers("a.0 b.1 b.2")}, "to be b.0, b.1, b.2"),
        ({"secondary_neighbours": ()}, "got none"),
        ({"clusters": 3}, "expected a broker of cluster 0 to 2, got b.3"),
        ({"clusters": 5}, "to be b.0, b.1, b.2, b.4"),
    ],
)
def test_what_is_no_neighbourhood(change: dict, message: str):
    with pytest.raises(InvalidOverlay, match=message):
        dataclasses.replace(B3, **change)


def test_pickles():
    assert pickle.loads(pickle.dumps(B3)) == B3
