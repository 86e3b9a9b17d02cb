"""A CIV update sets the bit of the cluster of the neighbour that sent it, and of no other cluster."""

from __future__ import annotations

import pytest

from octopia.broker import OctopiaBroker
from octopia.ids import AdvertisementId
from octopia.protocol.messages import (
    AdvertisementDigest,
    CivNone,
    CivSet,
    CivState,
    CivUnset,
    Message,
    Version,
)
from support import at, join, make_broker, offer

HERE = "b.1"
VERSION = Version(9, 9)
FOREIGN = AdvertisementId(at("b.2"), 1, 0)


def with_advertisement() -> tuple[OctopiaBroker, AdvertisementId]:
    """Return a broker with one advertisement of its own, whose bits are all 0 but its own."""
    broker = make_broker(HERE)
    join(broker, "P", offer(0, "x > 0"))
    [entry] = broker.state.clt
    assert list(entry.civ) == [1]
    return broker, entry.id


def civ_of(broker: OctopiaBroker) -> list[int]:
    [entry] = broker.state.clt
    return list(entry.civ)


@pytest.mark.parametrize("sender", ["b.0", "b.2"])
def test_an_update_sets_the_bit_of_its_sender(sender: str):
    broker, own = with_advertisement()
    for update in (CivSet((own,), Version(1, 1)), CivState((own,), (), Version(1, 2))):
        assert broker.receive(at(sender), [update], 0.0).violation is None
        assert civ_of(broker) == sorted([1, at(sender).cluster])


def test_nobody_clears_the_bit_of_another_cluster():
    broker, own = with_advertisement()
    broker.receive(at("b.0"), [CivSet((own,), Version(1, 1))], 0.0)
    for update in (CivUnset((own,), VERSION), CivNone((own,), VERSION), CivState((), (own,), VERSION)):
        broker.receive(at("b.2"), [update], 0.0)
        assert civ_of(broker) == [0, 1]


@pytest.mark.parametrize("sender", ["a.1", "c.1"])
@pytest.mark.parametrize("kind", [CivSet, CivUnset, CivNone])
def test_a_broker_of_the_own_cluster_sets_no_bits(sender: str, kind: type[Message]):
    broker, own = with_advertisement()
    violation = broker.receive(at(sender), [kind((own,), VERSION)], 0.0).violation
    assert violation is not None
    assert sender in str(violation)
    assert civ_of(broker) == [1]


@pytest.mark.parametrize(
    "message",
    [
        CivSet((FOREIGN,), VERSION),
        CivUnset((FOREIGN,), VERSION),
        CivNone((FOREIGN,), VERSION),
        CivState((FOREIGN,), (), VERSION),
        CivState((), (FOREIGN,), VERSION),
    ],
)
def test_an_update_for_another_host_broker_is_a_violation(message: Message):
    broker, _ = with_advertisement()
    violation = broker.receive(at("b.0"), [message], 0.0).violation
    assert violation is not None
    assert "b.0 may set the bit of cluster 0 in advertisements of this broker only, got b.2/1/0" in str(violation)


def test_a_neighbour_names_its_own_advertisements_only():
    broker, _ = with_advertisement()
    violation = broker.receive(at("b.0"), [AdvertisementDigest((FOREIGN,))], 0.0).violation
    assert violation is not None
    assert "b.0 may name its own advertisements only, got b.2/1/0" in str(violation)
