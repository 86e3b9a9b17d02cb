"""The advertisement broadcast process, Alg. 1, and CIV updates at the host broker."""

import pytest

from octopia.broker import OctopiaBroker
from octopia.content import parse_filter
from octopia.ids import AdvertisementId, ClientId
from octopia.protocol.messages import (
    Advertise,
    CivSet,
    CivUnset,
    Unadvertise,
    UnadvertiseRequest,
    Version,
)
from support import advertise, at, join, make_broker, offer, sent_by, subscribe, take_all, want

FIRST = AdvertisementId(at("b.1"), 1, 0)


def host() -> OctopiaBroker:
    """The broker b.1 with an advertisement of its client P, already sent to b.0 and b.2."""
    broker = make_broker("b.1")
    join(broker, "P", offer(7, "x > 0"))
    sent_by(broker)
    return broker


def civ_of(broker: OctopiaBroker, advertisement: AdvertisementId = FIRST) -> str:
    entry = broker.state.clt.get(advertisement)
    assert entry is not None
    return str(entry.civ)


def targets_of(broker: OctopiaBroker) -> str:
    shown = broker.civs(ClientId("P"), 7)
    assert shown is not None
    return str(shown[1])


class TestAtTheHostBroker:
    def test_it_tells_every_secondary_neighbour_and_no_primary_one(self):
        broker = make_broker("b.1")
        join(broker, "P", offer(7, "x > 0"))
        expected = Advertise(FIRST, parse_filter("x > 0"))
        assert sent_by(broker) == {"b.0": [expected], "b.2": [expected]}

    def test_it_stores_the_entry_with_only_the_host_bit_set(self):
        broker = host()
        entry = broker.state.clt.get(FIRST)
        assert str(entry.civ) == "010"
        assert entry.last_hop == ClientId("P")
        assert entry.offer == parse_filter("x > 0")

    def test_the_host_bit_is_set_also_when_nobody_here_wants_it_but_no_target(self):
        broker = host()
        assert civ_of(broker) == "010"
        assert targets_of(broker) == "000"

    def test_a_subscription_of_the_own_cluster_makes_it_a_target(self):
        broker = host()
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        assert civ_of(broker) == "010"
        assert targets_of(broker) == "010"

    def test_ids_are_never_reused(self):
        broker = host()
        broker.receive(ClientId("P"), [UnadvertiseRequest(7), offer(7, "x > 0")], 0.0)
        assert [message.id.number for message in take_all(broker, "b.0")] == [0, 1]

    def test_ids_carry_the_incarnation(self):
        broker = make_broker("b.1", incarnation=5)
        join(broker, "P", offer(0, "x > 0"))
        assert take_all(broker, "b.0")[0].id == AdvertisementId(at("b.1"), 5, 0)

    def test_unadvertise_removes_it_and_tells_every_secondary_neighbour(self):
        broker = host()
        broker.receive(ClientId("P"), [UnadvertiseRequest(7)], 0.0)
        assert sent_by(broker) == {"b.0": [Unadvertise(FIRST)], "b.2": [Unadvertise(FIRST)]}
        assert broker.table_sizes()["clt"] == 0

    def test_one_cluster_means_nobody_to_tell(self):
        broker = make_broker("b.0", clusters=1)
        join(broker, "P", offer(0, "x > 0"))
        assert sent_by(broker) == {}
        assert civ_of(broker, AdvertisementId(at("b.0"), 1, 0)) == "1"


class TestAtASecondaryBroker:
    def test_without_an_intersecting_subscription_it_stores_and_is_silent(self):
        broker = make_broker("b.2")
        broker.receive(at("c.2"), [subscribe("c.2", 0, "y > 0")], 0.0)
        sent_by(broker)
        effects = broker.receive(at("b.1"), [advertise("b.1", 0, "x > 0")], 0.0)
        assert sent_by(broker) == {}
        assert not effects.ready
        assert civ_of(broker) == "010"
        assert broker.state.clt.get(FIRST).last_hop == at("b.1")

    def test_with_several_it_answers_once_and_sets_its_own_bit(self):
        broker = make_broker("b.2")
        broker.receive(at("c.2"), [subscribe("c.2", 0, "x > 5"), subscribe("c.2", 1, "x > 6")], 0.0)
        sent_by(broker)
        broker.receive(at("b.1"), [advertise("b.1", 0, "x > 0")], 0.0)
        assert sent_by(broker) == {"b.1": [CivSet((FIRST,), Version(1, 1))]}
        assert civ_of(broker) == "110"

    def test_it_is_never_forwarded(self):
        broker = make_broker("b.2")
        broker.receive(at("b.1"), [advertise("b.1", 0, "x > 0")], 0.0)
        assert sent_by(broker) == {}

    def test_a_second_copy_changes_nothing(self):
        broker = make_broker("b.2")
        broker.receive(at("c.2"), [subscribe("c.2", 0, "x > 5")], 0.0)
        broker.receive(at("b.1"), [advertise("b.1", 0, "x > 0")], 0.0)
        sent_by(broker)
        before = broker.fingerprint()
        broker.receive(at("b.1"), [advertise("b.1", 0, "x > 0")], 0.0)
        assert sent_by(broker) == {}
        assert broker.fingerprint() == before

    def test_unadvertise_forgets_it_and_touches_no_subscription(self):
        broker = make_broker("b.2")
        join(broker, "S", want(0, "x > 5"))
        broker.receive(at("b.1"), [advertise("b.1", 0, "x > 0")], 0.0)
        sent_by(broker)
        broker.receive(at("b.1"), [Unadvertise(FIRST)], 0.0)
        assert broker.table_sizes() == {"clt": 0, "prt": 1, "srt": 0}
        assert sent_by(broker) == {}

    def test_unadvertise_of_the_unknown_is_ignored(self):
        broker = make_broker("b.2")
        effects = broker.receive(at("b.1"), [Unadvertise(FIRST)], 0.0)
        assert effects.violation is None
        assert sent_by(broker) == {}

    def test_a_civ_update_about_an_advertisement_of_another_host_is_ignored(self):
        broker = make_broker("b.2")
        broker.receive(at("b.1"), [advertise("b.1", 0, "x > 0")], 0.0)
        broker.receive(at("b.0"), [CivSet((FIRST,), Version(1, 1))], 0.0)
        assert civ_of(broker) == "010"


class TestCivUpdates:
    """D4: updates are versioned by the incarnation of the secondary broker and a number."""

    def test_set_and_unset_move_the_bit_of_the_senders_cluster(self):
        broker = host()
        broker.receive(at("b.2"), [CivSet((FIRST,), Version(1, 1))], 0.0)
        assert civ_of(broker) == "110"
        broker.receive(at("b.0"), [CivSet((FIRST,), Version(1, 1))], 0.0)
        assert civ_of(broker) == "111"
        broker.receive(at("b.2"), [CivUnset((FIRST,), Version(1, 2))], 0.0)
        assert civ_of(broker) == "011"

    @pytest.mark.parametrize("stale", [Version(1, 4), Version(1, 5), Version(0, 9)])
    def test_an_older_or_equal_version_changes_nothing(self, stale: Version):
        broker = host()
        broker.receive(at("b.2"), [CivSet((FIRST,), Version(1, 5))], 0.0)
        before = broker.fingerprint()
        broker.receive(at("b.2"), [CivUnset((FIRST,), stale)], 0.0)
        assert civ_of(broker) == "110"
        assert broker.fingerprint() == before

    def test_a_later_incarnation_is_newer_whatever_its_number(self):
        broker = host()
        broker.receive(at("b.2"), [CivSet((FIRST,), Version(1, 500))], 0.0)
        broker.receive(at("b.2"), [CivUnset((FIRST,), Version(2, 1))], 0.0)
        assert civ_of(broker) == "010"

    def test_versions_are_kept_per_secondary_broker(self):
        broker = host()
        broker.receive(at("b.2"), [CivSet((FIRST,), Version(9, 9))], 0.0)
        broker.receive(at("b.0"), [CivSet((FIRST,), Version(1, 1))], 0.0)
        assert civ_of(broker) == "111"

    def test_versions_are_kept_per_advertisement(self):
        broker = host()
        broker.receive(ClientId("P"), [offer(8, "y > 0")], 0.0)
        second = AdvertisementId(at("b.1"), 1, 1)
        broker.receive(at("b.2"), [CivSet((FIRST,), Version(1, 9))], 0.0)
        broker.receive(at("b.2"), [CivSet((second,), Version(1, 3))], 0.0)
        assert civ_of(broker, second) == "110"

    def test_one_update_may_name_several_and_unknown_ones_are_skipped(self):
        broker = host()
        broker.receive(ClientId("P"), [offer(8, "y > 0")], 0.0)
        second, unknown = AdvertisementId(at("b.1"), 1, 1), AdvertisementId(at("b.1"), 1, 77)
        effects = broker.receive(at("b.0"), [CivSet((FIRST, unknown, second), Version(1, 1))], 0.0)
        assert effects.violation is None
        assert (civ_of(broker), civ_of(broker, second)) == ("011", "011")
        assert broker.table_sizes()["clt"] == 2
        assert unknown not in broker.state.clt

    def test_only_what_a_client_advertised_here_has_civs_to_show(self):
        broker = host()
        broker.receive(at("b.0"), [CivSet((FIRST,), Version(1, 1))], 0.0)
        assert tuple(map(str, broker.civs(ClientId("P"), 7))) == ("011", "001")
        assert broker.civs(ClientId("P"), 8) is None
        assert broker.civs(ClientId("Q"), 7) is None
        broker.receive(ClientId("P"), [UnadvertiseRequest(7)], 0.0)
        assert broker.civs(ClientId("P"), 7) is None
