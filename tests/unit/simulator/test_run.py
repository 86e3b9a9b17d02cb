"""Running a scenario: what comes out, in the form that is promised."""

import json

import pytest

from octopia.broker import Detail
from octopia.errors import UsageError
from octopia.simulator.links import FaultyLinks, ReliableLinks
from octopia.simulator.run import run_scenario
from support import received_by, run_text, scenario_from

BASE = """
[overlay]
tree = "a-b"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "S"
broker = "b.1"
subscribe = ["x > 5", "x > 6"]
"""


def event(text: str, client: str = "P") -> str:
    return f'[[event]]\nclient = "{client}"\n{text}\n'


class TestJson:
    def test_the_keys_of_the_contract_in_their_order(self):
        result = run_text(BASE + event("publish = {x = 9}")).to_json()
        assert list(result) == ["deliveries", "hops", "messages", "tables", "civs", "refused", "false_positives"]
        assert list(result["messages"]) == [
            "advertisement",
            "unadvertisement",
            "subscription",
            "unsubscription",
            "civ_set",
            "civ_unset",
            "publication",
            "confirmation",
            "sync",
        ]
        assert json.loads(json.dumps(result)) == json.loads(json.dumps(result, sort_keys=True))

    def test_a_whole_result(self):
        result = run_text(
            BASE
            + "[routing]\nconfirmations = false\n"
            + event("publish = {x = 9}")
            + event("publish = {y = 1}")
            + event("publish = {x = 1}")
        ).to_json()
        path = ["a.0", "a.1", "b.1"]
        assert json.loads(json.dumps(result)) == {
            "deliveries": [
                {"publication": 0, "client": "S", "subscription": "S/0", "path": path, "delay_ms": 4.0},
                {"publication": 0, "client": "S", "subscription": "S/1", "path": path, "delay_ms": 4.0},
            ],
            "hops": [
                {"kind": "advertisement", "publication": None, "from": "a.0", "to": "a.1", "civ": None},
                {"kind": "subscription", "publication": None, "from": "b.1", "to": "a.1", "civ": None},
                {"kind": "civ_set", "publication": None, "from": "a.1", "to": "a.0", "civ": None},
                {"kind": "subscription", "publication": None, "from": "b.1", "to": "a.1", "civ": None},
                {"kind": "publication", "publication": 0, "from": "a.0", "to": "a.1", "civ": None},
                {"kind": "publication", "publication": 0, "from": "a.1", "to": "b.1", "civ": None},
                {"kind": "publication", "publication": 2, "from": "a.0", "to": "a.1", "civ": None},
            ],
            "messages": {
                "advertisement": 1,
                "unadvertisement": 0,
                "subscription": 2,
                "unsubscription": 0,
                "civ_set": 1,
                "civ_unset": 0,
                "publication": 3,
                "confirmation": 0,
                "sync": 0,
            },
            "tables": {
                "a.0": {"clt": 1, "prt": 0, "srt": 0},
                "a.1": {"clt": 1, "prt": 2, "srt": 0},
                "b.0": {"clt": 0, "prt": 0, "srt": 0},
                "b.1": {"clt": 0, "prt": 2, "srt": 0},
            },
            "civs": {"P/0": {"stored": "11", "targets": "10"}},
            "refused": [
                {
                    "publication": 1,
                    "client": "P",
                    "reason": "it conforms to none of its publisher's advertisements; the closest is (x > 0), "
                    "which does not declare y: leave it out, or advertise what you publish",
                }
            ],
            "false_positives": 1,
        }

    def test_nothing_at_all_gives_zeros(self):
        result = run_text('[overlay]\ntree = "a"\nclusters = 1\n').to_json()
        assert result["deliveries"] == result["hops"] == result["refused"] == []
        assert set(result["messages"].values()) == {0}
        assert result["tables"] == {"a.0": {"clt": 0, "prt": 0, "srt": 0}}
        assert result["civs"] == {}
        assert result["false_positives"] == 0

    def test_unadvertised_ones_are_absent_from_the_civs(self):
        text = BASE + event('advertise = "y > 0"\nid = "second"') + event('unadvertise = "P/0"')
        result = run_text(text).to_json()
        assert result["civs"] == {"second": {"stored": "01", "targets": "00"}}
        assert result["messages"]["unadvertisement"] == 1

    def test_the_level_of_detail_changes_no_result(self):
        scenario = scenario_from(BASE + event("publish = {x = 9}"))
        assert (
            run_scenario(scenario, detail=Detail.HOPS).to_json() == run_scenario(scenario, detail=Detail.ALL).to_json()
        )


class TestOrder:
    def test_each_event_settles_before_the_next(self):
        text = BASE + event('unsubscribe = "S/0"', "S") + event('unsubscribe = "S/1"', "S") + event("publish = {x = 9}")
        run = run_text(text)
        assert run.messages()["civ_unset"] == 1
        assert run.messages()["publication"] == 0
        assert run.to_json()["false_positives"] == 0

    def test_timed_events_overlap(self):
        """The publication leaves before the subscription that was made at the same time can have been heard of."""
        overlapping = event('subscribe = "x > 0"\nat_ms = 5', "S") + event("publish = {x = 1}\nat_ms = 5")
        apart = event('subscribe = "x > 0"\nat_ms = 5', "S") + event("publish = {x = 1}\nat_ms = 50")
        base = BASE.replace('"x > 5", "x > 6"', "")
        assert received_by(run_text(base + overlapping), 0) == []
        assert received_by(run_text(base + apart), 0) == ["S"]
        assert run_text(base + overlapping).complaints() == []

    def test_timed_events_happen_by_time_and_then_by_their_order_in_the_file(self):
        text = BASE + event("publish = {x = 7}\nat_ms = 20") + event("publish = {x = 8}\nat_ms = 10")
        run = run_text(text + event("publish = {x = 9}\nat_ms = 10"))
        assert [run.ledger.publication(number)[1].attributes["x"] for number in range(3)] == [8, 9, 7]

    def test_an_event_without_a_time_waits_for_all_timed_ones_before_it(self):
        text = BASE + event("publish = {x = 7}\nat_ms = 100") + event("publish = {x = 8}")
        run = run_text(text)
        assert [run.ledger.publication(number)[1].attributes["x"] for number in range(2)] == [7, 8]

    def test_count_and_every_ms_repeat_a_publication(self):
        run = run_text(BASE + event("publish = {x = 9}\ncount = 3\nevery_ms = 2.5") + event("publish = {x = 8}"))
        assert [each.publication for each in run.recorder.deliveries if each.subscription == "S/0"] == [0, 1, 2, 3]
        assert run.ledger.attempted == 4


class TestLinks:
    FORCED = BASE + '[[link]]\nfrom = "a.0"\nto = "a.1"\ncongested = true\n'

    def cases(self, text: str) -> int:
        run = run_text(text + event("publish = {x = 9}"))
        return sum(sum(broker.counters.cases.values()) for broker in run.world.brokers.values())

    def test_a_forced_verdict_holds_from_the_start(self):
        assert self.cases(BASE) == 0
        assert self.cases(self.FORCED) == 1

    def test_a_link_event_is_merged_into_what_was_set(self):
        longer = self.FORCED + '[[event]]\nlink = {from = "a.0", to = "a.1", queue_length = 3}\n'
        assert self.cases(longer) == 1
        freed = longer + '[[event]]\nlink = {from = "a.0", to = "a.1", congested = false}\n'
        assert self.cases(freed) == 0
        auto = longer + '[[event]]\nlink = {from = "a.0", to = "a.1", congested = "auto"}\n'
        assert self.cases(auto) == 0
        assert self.cases(auto + '[[event]]\nlink = {between = ["a.1", "a.0"], queue_length = 11}\n') == 1

    def test_one_direction_leaves_the_other_alone(self):
        assert self.cases(BASE + '[[link]]\nfrom = "a.1"\nto = "a.0"\ncongested = true\n') == 0


class TestRefusals:
    def test_withdrawing_the_unknown_is_refused_and_the_run_goes_on(self):
        text = BASE + event('unsubscribe = "nothing"', "S") + event('unadvertise = "S/0"') + event("publish = {x = 9}")
        result = run_text(text).to_json()
        assert result["refused"] == [
            {
                "publication": None,
                "client": "S",
                "reason": "unsubscription of nothing: this client has no such subscription",
            },
            {
                "publication": None,
                "client": "P",
                "reason": "unadvertisement of S/0: this client has no such advertisement",
            },
        ]
        assert len(result["deliveries"]) == 2

    def test_withdrawing_twice_is_refused_the_second_time(self):
        text = BASE + event('unsubscribe = "S/0"', "S") * 2
        assert [each.client for each in run_text(text).recorder.refused] == ["S"]


def test_an_ordered_advertisement_keeps_its_path_under_congestion():
    forced = BASE.replace('advertise = ["x > 0"]', 'advertise = ["x > 0"]\nordered = true')
    forced += '[[client]]\nname = "T"\nbroker = "b.0"\nsubscribe = ["x > 0"]\n'
    forced += '[[link]]\nfrom = "a.0"\nto = "a.1"\ncongested = true\n' + event("publish = {x = 9}")
    assert not any(hop.civ for hop in run_text(forced).recorder.hops)
    assert any(hop.civ for hop in run_text(forced.replace("ordered = true", "ordered = false")).recorder.hops)


class TestConfirmations:
    TEXT = BASE + event("publish = {x = 9}") + event('unsubscribe = "S/0"', "S") + event("publish = {x = 6}")
    OFF = TEXT + "[routing]\nconfirmations = false\n"

    def test_they_are_on_unless_switched_off_and_change_nothing_but_their_own_messages(self):
        on, off = (run_text(text).to_json() for text in (self.TEXT, self.OFF))
        assert on["messages"].pop("confirmation") > 0
        assert off["messages"].pop("confirmation") == 0
        on["hops"] = [hop for hop in on["hops"] if hop["kind"] != "confirmation"]
        assert on == off

    def test_the_ledger_learns_of_them(self):
        """The publication is made while the subscription is fresh; only its confirmation says that it must arrive."""
        fresh = event('subscribe = "x > 0"\nat_ms = 5', "S") + event("publish = {x = 1}\nat_ms = 50")
        base = BASE.replace('"x > 5", "x > 6"', "")
        assert run_text(base + fresh).ledger.expected(0) == (["S/0"], ["S/0"])
        off = run_text(base + fresh + "[routing]\nconfirmations = false\n")
        assert off.ledger.expected(0) == ([], ["S/0"])

    def test_a_confirmation_that_comes_later_promises_nothing(self):
        fresh = event('subscribe = "x > 0"\nat_ms = 5', "S") + event("publish = {x = 1}\nat_ms = 6")
        run = run_text(BASE.replace('"x > 5", "x > 6"', "") + fresh)
        assert run.ledger.expected(0) == ([], ["S/0"])


class TestLinkModels:
    def test_faults_need_sessions(self):
        assert isinstance(run_text(BASE).world.links, ReliableLinks)
        for more in (
            '[simulator]\nlinks = "session"\n',
            "[simulator]\ndrop = 0.01\n",
            "[simulator]\nqueue_capacity = 5\n",
            '[[event]]\ncrash = "b.1"\n[[event]]\nrestart = "b.1"\n',
        ):
            assert isinstance(run_text(BASE + more).world.links, FaultyLinks), more

    @pytest.mark.parametrize("more", ["drop = 0.01", "queue_capacity = 5"])
    def test_ideal_links_cannot_fail(self, more: str):
        with pytest.raises(UsageError, match='expected links = "session" or "auto"'):
            run_text(BASE + f'[simulator]\nlinks = "ideal"\n{more}\n')

    def test_ideal_links_cannot_be_cut(self):
        with pytest.raises(UsageError, match='got "ideal"'):
            run_text(BASE + '[simulator]\nlinks = "ideal"\n[[event]]\ncut = ["a.0", "a.1"]\n')

    @pytest.mark.parametrize("algorithm", ["tid-static", "tid-dynamic"])
    def test_tid_based_routing_knows_no_faults(self, algorithm: str):
        with pytest.raises(UsageError, match="expected ideal links or brokers that crash for good"):
            run_text(BASE + f'[routing]\nalgorithm = "{algorithm}"\n[[event]]\ncut = ["a.0", "a.1"]\n')


def test_a_link_that_was_never_used_does_not_break():
    late = (
        '[simulator]\nlinks = "session"\n'
        + event("publish = {x = 9}\nat_ms = 1")
        + event('subscribe = "x > 0"\nat_ms = 10_000')
    )
    run = run_text(BASE.replace("clusters = 2", "clusters = 3") + late)
    assert run.messages()["sync"] == 0


class TestFaults:
    def test_a_publication_waits_for_a_link_that_was_cut(self):
        text = BASE + '[routing]\nalgorithm = "static"\n'
        text += '[[event]]\ncut = ["a.0", "a.1"]\nafter_ms = 0\n' + event("publish = {x = 9}\nafter_ms = 10")
        text += '[[event]]\nheal = ["a.0", "a.1"]\nafter_ms = 4000\n'
        run = run_text(text)
        assert run.complaints() == []
        assert received_by(run, 0) == ["S", "S"]
        assert min(each.delay_ms for each in run.recorder.deliveries) > 3900
        assert run.messages()["sync"] > 0

    def test_dynamic_routing_goes_around_a_link_whose_loss_was_noticed(self):
        text = BASE + '[[client]]\nname = "T"\nbroker = "b.0"\nsubscribe = ["x > 0"]\n'
        text += '[[event]]\ncut = ["a.0", "a.1"]\n' + event("publish = {x = 9}")
        run = run_text(text)
        assert run.complaints() == []
        (path,) = {each.path for each in run.recorder.deliveries if each.client == "S"}
        assert path == ("a.0", "b.0", "b.1")

    def test_a_broker_comes_back_with_its_tables_and_its_clients(self):
        text = BASE + '[[event]]\ncrash = "b.1"\n[[event]]\nrestart = "b.1"\n' + event("publish = {x = 9}")
        run = run_text(text)
        assert received_by(run, 0) == ["S", "S"]
        assert run.complaints() == []
        assert run.to_json()["tables"] == run_text(BASE).to_json()["tables"]

    def test_a_broker_that_is_down_has_no_tables_and_its_clients_cannot_publish(self):
        run = run_text(BASE + '[[event]]\ncrash = "a.0"\n' + event("publish = {x = 9}"))
        result = run.to_json()
        assert result["tables"]["a.0"] == {"clt": 0, "prt": 0, "srt": 0}
        assert result["refused"] == [{"publication": 0, "client": "P", "reason": "its broker is down"}]
        assert result["civs"] == {}
        assert run.complaints() == []
