"""The requests of clients to their host broker, and clients that leave or are too slow."""

import pytest

from octopia.broker import OctopiaBroker
from octopia.ids import ClientId
from octopia.protocol import Overflow
from octopia.protocol.messages import (
    ClientRequest,
    CutOff,
    Deliver,
    Lost,
    Refused,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from support import at, join, make_broker, offer, publish, say, sent_by, subscribe, take_all, want

C, SLOW, FAST = ClientId("C"), ClientId("slow"), ClientId("fast")


class TestRefusals:
    @pytest.mark.parametrize(
        ("before", "request_", "refused"),
        [
            (
                [offer(1, "x > 0")],
                offer(1, "y > 0"),
                Refused("advertisement", 1, "this client already uses the handle for another advertisement"),
            ),
            (
                [want(1, "x > 0")],
                want(1, "y > 0"),
                Refused("subscription", 1, "this client already uses the handle for another subscription"),
            ),
            ([], UnadvertiseRequest(4), Refused("unadvertisement", 4, "this client has no such advertisement")),
            ([], UnsubscribeRequest(4), Refused("unsubscription", 4, "this client has no such subscription")),
            (
                [want(4, "x > 0")],
                UnadvertiseRequest(4),
                Refused("unadvertisement", 4, "this client has no such advertisement"),
            ),
            (
                [offer(4, "x > 0")],
                UnsubscribeRequest(4),
                Refused("unsubscription", 4, "this client has no such subscription"),
            ),
        ],
    )
    def test_a_refusal_is_an_answer_that_changes_nothing_else(
        self, before: list[ClientRequest], request_: ClientRequest, refused: Refused
    ):
        broker = make_broker("b.1")
        join(broker, "C", *before)
        sent_by(broker)
        tables = broker.table_sizes()
        effects = broker.receive(C, [request_], 0.0)
        assert effects.violation is None
        assert list(effects.ready) == [C]
        assert take_all(broker, C) == [refused]
        assert sent_by(broker) == {}
        assert broker.table_sizes() == tables
        assert broker.counters.refused == 1

    def test_one_handle_may_name_an_advertisement_and_a_subscription(self):
        broker = make_broker("b.1")
        join(broker, "C", offer(1, "x > 0"), want(1, "x > 0"))
        assert take_all(broker, C) == []
        assert broker.table_sizes() == {"clt": 1, "prt": 1, "srt": 0}

    def test_handles_of_different_clients_do_not_clash(self):
        broker = make_broker("b.1")
        join(broker, "C", want(1, "x > 0"))
        join(broker, "D", want(1, "x > 0"))
        assert broker.table_sizes()["prt"] == 2

    def test_a_client_cannot_withdraw_what_is_anothers(self):
        broker = make_broker("b.1")
        join(broker, "C", want(1, "x > 0"))
        join(broker, "D", UnsubscribeRequest(1))
        assert [type(each) for each in take_all(broker, ClientId("D"))] == [Refused]
        assert broker.table_sizes()["prt"] == 1

    def test_a_refusal_overtakes_waiting_deliveries(self):
        broker = make_broker("b.1")
        join(broker, "C", offer(0, "x > 0"), want(0, "x > 0"), say(0, x=1), UnsubscribeRequest(9))
        assert [type(each) for each in take_all(broker, C)] == [Refused, Deliver]

    def test_a_handle_is_free_again_after_withdrawal(self):
        broker = make_broker("b.1")
        join(broker, "C", want(1, "x > 0"), UnsubscribeRequest(1), want(1, "y > 0"))
        assert take_all(broker, C) == []
        assert broker.table_sizes()["prt"] == 1


class TestLeaving:
    def test_everything_a_client_issued_is_withdrawn(self):
        broker = make_broker("b.1")
        join(broker, "C", offer(0, "x > 0"), want(0, "x > 0"), want(1, "y > 0"))
        join(broker, "D", want(0, "x > 5"))
        sent_by(broker)
        effects = broker.detach(C, 0.0)
        sent = sent_by(broker)
        assert [type(each) for each in sent["a.1"]] == [Unsubscribe, Unsubscribe]
        assert [type(each) for each in sent["b.0"]] == [Unadvertise]
        assert sorted(map(str, effects.ready)) == ["a.1", "b.0", "b.2", "c.1"]
        assert broker.table_sizes() == {"clt": 0, "prt": 1, "srt": 0}
        broker.check()

    def test_what_waited_for_it_is_gone_and_it_may_come_back(self):
        broker = make_broker("b.1")
        join(broker, "C", want(0, "x > 0"))
        broker.receive(at("a.1"), [publish("a.1", 0, x=1)], 0.0)
        broker.detach(C, 0.0)
        assert C not in broker.state.waiting
        join(broker, "C", want(0, "x > 0"))
        assert take_all(broker, C) == []

    def test_an_unknown_client_leaves_without_a_trace(self):
        broker = make_broker("b.1")
        before = broker.fingerprint()
        assert broker.detach(C, 0.0).ready == {}
        assert broker.fingerprint() == before


def with_slow_client(overflow: Overflow, limit: int = 3) -> OctopiaBroker:
    """The broker b.1 with a client that takes nothing, and room for three deliveries."""
    broker = make_broker("b.1", client_queue_limit=limit)
    join(broker, "slow", want(0, "x > 0"), want(1, "y > 0"), offer(0, "z > 0"), overflow=overflow)
    sent_by(broker)
    return broker


def arrive(broker: OctopiaBroker, *numbers: int) -> list[ClientId]:
    batch = [publish("a.1", number, x=number + 1) for number in numbers]
    return broker.receive(at("a.1"), batch, 0.0).cut_off


class TestSlowClientThatIsCutOff:
    def test_up_to_the_limit_nothing_happens(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        assert arrive(broker, 0, 1, 2) == []
        assert len(take_all(broker, SLOW)) == 3

    def test_beyond_it_the_client_is_cut_off_and_told_how_many_it_lost(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        assert arrive(broker, 0, 1, 2) == []
        assert arrive(broker, 3) == [SLOW]
        assert take_all(broker, SLOW) == [CutOff(4)]
        assert broker.counters.lost_by_slow_clients == 4

    def test_what_follows_in_the_same_batch_is_lost_and_counted_too(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        assert arrive(broker, 0, 1, 2, 3, 4, 5) == [SLOW]
        assert take_all(broker, SLOW) == [CutOff(6)]

    def test_what_it_issued_is_withdrawn(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        arrive(broker, 0, 1, 2, 3)
        assert broker.table_sizes() == {"clt": 0, "prt": 0, "srt": 0}
        sent = sent_by(broker)
        assert [type(each) for each in sent["c.1"]] == [Unsubscribe, Unsubscribe]
        assert [type(each) for each in sent["b.0"]] == [Unadvertise]
        broker.check()

    def test_others_do_not_notice(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        join(broker, "fast", want(0, "x > 0"))
        for number in range(6):
            arrive(broker, number)
            assert [type(each) for each in take_all(broker, FAST)] == [Deliver]

    def test_its_later_requests_are_not_heard(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        arrive(broker, 0, 1, 2, 3)
        broker.receive(SLOW, [want(9, "x > 0")], 0.0)
        assert broker.table_sizes()["prt"] == 0

    def test_a_refusal_that_waited_gives_way_to_the_last_word(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        broker.receive(SLOW, [UnsubscribeRequest(77)], 0.0)
        arrive(broker, 0, 1, 2, 3)
        assert take_all(broker, SLOW)[-1] == CutOff(4)

    def test_after_it_is_detached_nothing_is_left(self):
        broker = with_slow_client(Overflow.DISCONNECT)
        arrive(broker, 0, 1, 2, 3)
        broker.detach(SLOW, 0.0)
        broker.check()
        assert SLOW not in broker.state.waiting


class TestSlowClientThatDropsTheOldest:
    def test_it_is_told_first_how_many_it_missed_and_gets_the_newest(self):
        broker = with_slow_client(Overflow.DROP_OLDEST)
        assert arrive(broker, 0, 1, 2, 3, 4) == []
        lost, *deliveries = take_all(broker, SLOW)
        assert lost == Lost(2)
        assert [each.id.number for each in deliveries] == [2, 3, 4]
        assert broker.counters.lost_by_slow_clients == 2

    def test_it_is_told_once_and_the_count_starts_anew(self):
        broker = with_slow_client(Overflow.DROP_OLDEST)
        arrive(broker, 0, 1, 2, 3)
        assert take_all(broker, SLOW)[0] == Lost(1)
        arrive(broker, 4)
        assert [type(each) for each in take_all(broker, SLOW)] == [Deliver]

    def test_its_subscriptions_stay_and_others_do_not_notice(self):
        broker = with_slow_client(Overflow.DROP_OLDEST)
        join(broker, "fast", want(0, "x > 0"))
        for number in range(6):
            arrive(broker, number)
            assert len(take_all(broker, FAST)) == 1
        assert broker.table_sizes() == {"clt": 1, "prt": 3, "srt": 0}
        broker.check()


def test_a_subscription_from_elsewhere_is_not_withdrawn_with_a_client():
    broker = make_broker("b.1")
    join(broker, "C", want(0, "x > 0"))
    broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 0")], 0.0)
    broker.detach(C, 0.0)
    assert [str(entry.id) for entry in broker.state.prt] == ["a.1/1/0"]
