"""Requests of clients to their host broker, and clients that leave."""

import pytest

from octopia.ids import ClientId
from octopia.protocol.messages import (
    ClientRequest,
    Deliver,
    Refused,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from support import at, join, make_broker, offer, publish, say, sent_by, subscribe, take_all, want

C = ClientId("C")


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
        assert effects.ready == {}, "an answer is no message for a neighbour"
        assert take_all(broker, C) == [refused]
        assert sent_by(broker) == {}
        assert broker.table_sizes() == tables
        assert broker.counters.refused == 1

    def test_a_request_that_repeats_a_subscription_changes_nothing(self):
        broker = make_broker("b.1")
        join(broker, "C", want(1, "x > 0"))
        sent_by(broker)
        tables = broker.table_sizes()
        broker.receive(C, [want(1, "x > 0")], 0.0)
        assert take_all(broker, C) == []
        assert (sent_by(broker), broker.table_sizes(), broker.counters.refused) == ({}, tables, 0)
        broker.check()

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

    def test_it_may_come_back_and_gets_nothing_from_before(self):
        broker = make_broker("b.1")
        join(broker, "C", want(0, "x > 0"))
        broker.receive(at("a.1"), [publish("a.1", 0, x=1)], 0.0)
        broker.detach(C, 0.0)
        take_all(broker, C)
        join(broker, "C", want(0, "x > 0"))
        assert take_all(broker, C) == []

    def test_an_unknown_client_leaves_without_a_trace(self):
        broker = make_broker("b.1")
        before = broker.fingerprint()
        assert broker.detach(C, 0.0).ready == {}
        assert broker.fingerprint() == before


def test_a_subscription_from_elsewhere_is_not_withdrawn_with_a_client():
    broker = make_broker("b.1")
    join(broker, "C", want(0, "x > 0"))
    broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 0")], 0.0)
    broker.detach(C, 0.0)
    assert [str(entry.id) for entry in broker.state.prt] == ["a.1/1/0"]
