"""Scenario files with faults: crash, restart, cut, heal, slow, and frames that go astray."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from octopia.errors import InvalidFile, UsageError
from octopia.scenario import (
    CrashItem,
    CutItem,
    HealItem,
    LinkModel,
    RestartItem,
    Scenario,
    SlowItem,
    read_scenario,
)
from octopia.simulator.links import FaultyLinks
from octopia.simulator.run import Run, run_scenario
from octopia.tomlfile import Table

HEAD = """
[overlay]
tree = "a-b, b-c"
clusters = 2
"""
CLIENTS = """
[[client]]
name = "P"
broker = "a.0"
advertise = ["x >= 0"]
[[client]]
name = "S"
broker = "c.0"
subscribe = ["x > 5"]
[[client]]
name = "T"
broker = "b.1"
subscribe = ["x > 0"]
"""


def scenario(*events: str, head: str = HEAD, clients: str = CLIENTS) -> Scenario:
    """Read a scenario with these events."""
    text = head + clients + "".join(f"\n[[event]]\n{event}\n" for event in events)
    return read_scenario(Table(tomllib.loads(text), "faults.toml"), "faults", Path())


def run(*events: str, head: str = HEAD, clients: str = CLIENTS, **options: Any) -> Run:
    """Run a scenario with every invariant checked after every step."""
    return run_scenario(scenario(*events, head=head, clients=clients), check=True, **options)


def publish(x: int, client: str = "P", more: str = "") -> str:
    """Write an event in which a client publishes."""
    return f'client = "{client}"\npublish = {{ x = {x} }}\n{more}'


def received(result: Run, client: str) -> list[int]:
    """Return the numbers of the publications that a client received, in order."""
    return [each.publication for each in result.recorder.deliveries if each.client == client]


def with_simulator(text: str) -> str:
    """Return the head of a scenario with a [simulator] table."""
    return f"{HEAD}[simulator]\n{text}\n"


class TestFiles:
    def test_all_kinds_of_event(self) -> None:
        read = scenario(
            'crash = "b.1"',
            'restart = "b.1"\nat_ms = 5',
            'cut = ["a.0", "b.0"]',
            'heal = ["b.0", "a.0"]\nafter_ms = 5',
            'client = "S"\nslow = 2.5',
        )
        kinds = [type(each.item) for each in read.events]
        assert kinds == [CrashItem, RestartItem, CutItem, HealItem, SlowItem]
        assert read.events[1].at_ms == 5
        assert read.events[3].after_ms == 5
        assert isinstance(read.events[4].item, SlowItem)
        assert read.events[4].item.rate == 2.5

    def test_the_simulator_table(self) -> None:
        text = 'drop = 0.1\nduplicate = 0.2\nreorder = 0.3\nqueue_capacity = 7\nwindow_bytes = 900\nlinks = "session"'
        settings = scenario(head=with_simulator(text)).simulator
        assert (settings.drop, settings.duplicate, settings.reorder) == (0.1, 0.2, 0.3)
        assert (settings.queue_capacity, settings.window_bytes) == (7, 900)
        assert settings.links is LinkModel.SESSION

    @pytest.mark.parametrize(
        "event",
        [
            'crash = "z.0"',
            'restart = "a.9"',
            'cut = ["a.0", "c.0"]',
            'heal = ["a.0"]',
            'cut = ["a.0", "a.0"]',
            'client = "S"\nslow = 0',
            'client = "S"\nslow = -1',
            'client = "nobody"\nslow = 1',
            'crash = "b.1"\nrestart = "b.1"',
            'crash = "b.1"\nat_ms = 1\nafter_ms = 1',
        ],
    )
    def test_events_that_make_no_sense(self, event: str) -> None:
        with pytest.raises(UsageError):
            scenario(event)

    @pytest.mark.parametrize(
        "text",
        [
            "drop = 1.0",
            "drop = -0.1",
            "duplicate = 2",
            "reorder = nan",
            "queue_capacity = -1",
            "window_bytes = 0",
            'links = "magic"',
            "dorp = 0.1",
        ],
    )
    def test_simulator_settings_that_make_no_sense(self, text: str) -> None:
        with pytest.raises(InvalidFile):
            scenario(head=with_simulator(text))


class TestLinkModels:
    def test_without_faults_links_are_ideal(self) -> None:
        assert not isinstance(run(publish(9)).world.links, FaultyLinks)

    @pytest.mark.parametrize("text", ['links = "session"', "drop = 0.01", "queue_capacity = 9"])
    def test_where_they_are_needed_there_are_sessions(self, text: str) -> None:
        assert isinstance(run(publish(9), head=with_simulator(text)).world.links, FaultyLinks)

    def test_a_fault_event_needs_sessions(self) -> None:
        assert isinstance(run('heal = ["a.0", "b.0"]').world.links, FaultyLinks)

    @pytest.mark.parametrize("text", ["drop = 0.01", "duplicate = 0.1", "reorder = 0.1", "queue_capacity = 9"])
    def test_ideal_links_cannot_fail(self, text: str) -> None:
        with pytest.raises(UsageError, match=r'expected links = "session" or "auto".*got "ideal"'):
            run(head=with_simulator(f'links = "ideal"\n{text}'))

    def test_ideal_links_cannot_be_cut(self) -> None:
        with pytest.raises(UsageError, match="ideal"):
            run('cut = ["a.0", "b.0"]', head=with_simulator('links = "ideal"'))

    def test_sessions_change_nothing_where_nothing_fails(self) -> None:
        events = [publish(9), publish(3), 'client = "T"\nsubscribe = "x < 2"', publish(1, more="count = 3")]
        ideal, session = (run(*events, head=with_simulator(f'links = "{each}"')) for each in ("ideal", "session"))
        assert ideal.to_json() == session.to_json()

    @pytest.mark.parametrize("algorithm", ["tid-static", "tid-dynamic"])
    @pytest.mark.parametrize(
        ("text", "events"),
        [
            ("", ['crash = "b.1"', 'restart = "b.1"']),
            ("", ['cut = ["a.0", "b.0"]']),
            ("drop = 0.1", []),
            ("queue_capacity = 4", []),
            ('links = "session"', []),
        ],
    )
    def test_tid_based_routing_has_no_faults_that_end(self, algorithm: str, text: str, events: list[str]) -> None:
        head = with_simulator(text) + f'[routing]\nalgorithm = "{algorithm}"\n'
        with pytest.raises(UsageError, match="expected ideal links or brokers that crash for good"):
            run(*events, head=head)

    @pytest.mark.parametrize("algorithm", ["tid-static", "tid-dynamic"])
    def test_under_tid_based_routing_a_broker_can_crash_for_good(self, algorithm: str) -> None:
        head = with_simulator("") + f'[routing]\nalgorithm = "{algorithm}"\n'
        result = run(publish(9), 'crash = "c.0"', publish(8), head=head).to_json()
        delivered = [(each["publication"], each["client"]) for each in result["deliveries"]]
        assert sorted(delivered) == [(0, "S"), (0, "T"), (1, "T")]


class TestCrashAndRestart:
    def test_the_json_of_a_run_with_a_crashed_broker(self) -> None:
        result = run(publish(9), 'crash = "c.0"', publish(8)).to_json()
        assert result["tables"]["c.0"] == {"clt": 0, "prt": 0, "srt": 0}
        assert result["tables"]["b.0"]["prt"] == 1, "nobody forgets what lies behind a broker that is down"
        delivered = [(each["publication"], each["client"]) for each in result["deliveries"]]
        assert sorted(delivered) == [(0, "S"), (0, "T"), (1, "T")]
        assert sorted(result["messages"]) == sorted(
            [
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
        )
        assert result["messages"]["confirmation"] > 0
        assert result["messages"]["sync"] == 0, "nothing came up again"

    def test_an_exchange_is_counted_as_sync(self) -> None:
        result = run('crash = "c.0"', 'restart = "c.0"').to_json()
        assert result["messages"]["sync"] > 0
        assert {each["kind"] for each in result["hops"]} >= {"sync", "confirmation"}

    def test_confirmations_off(self) -> None:
        head = HEAD + "[routing]\nconfirmations = false\n"
        result = run('crash = "c.0"', 'restart = "c.0"', publish(9), head=head)
        assert result.messages()["confirmation"] == 0
        assert result.messages()["sync"] > 0
        assert received(result, "S") == [0]

    def test_a_publisher_whose_broker_is_down_is_refused(self) -> None:
        result = run('crash = "a.0"', publish(9), 'restart = "a.0"', publish(8))
        refused = result.to_json()["refused"]
        assert refused == [{"publication": 0, "client": "P", "reason": "its broker is down"}]
        assert received(result, "S") == [1]
        assert result.complaints() == []

    @pytest.mark.parametrize("broker", ["a.0", "b.0", "b.1", "c.0", "c.1"])
    def test_after_a_restart_everything_is_as_before(self, broker: str) -> None:
        before = run(publish(9))
        after = run(f'crash = "{broker}"', f'restart = "{broker}"', publish(9))
        assert after.complaints() == []
        assert received(after, "S") == received(after, "T") == [0]
        assert after.to_json()["tables"] == before.to_json()["tables"]
        assert after.to_json()["civs"] == before.to_json()["civs"]

    def test_clients_reconnect_and_issue_again_what_is_still_in_force(self) -> None:
        result = run(
            'client = "S"\nsubscribe = "x = 1"\nid = "one"',
            'client = "S"\nunsubscribe = "S/0"',
            'crash = "c.0"',
            'restart = "c.0"',
            publish(9),
            publish(1),
        )
        assert received(result, "S") == [1]
        assert [each.subscription for each in result.recorder.deliveries if each.client == "S"] == ["one"]
        assert result.complaints() == []

    def test_what_was_asked_while_the_broker_was_down_is_issued_when_it_is_back(self) -> None:
        result = run(
            'crash = "c.0"',
            'client = "S"\nsubscribe = "x = 1"\nid = "one"',
            'client = "S"\nunsubscribe = "S/0"',
            'restart = "c.0"',
            publish(9),
            publish(1),
        )
        assert received(result, "S") == [1]
        assert result.complaints() == []

    def test_an_advertisement_is_issued_again(self) -> None:
        result = run('crash = "a.0"', 'restart = "a.0"', publish(9))
        assert result.recorder.refused == []
        assert result.to_json()["civs"]["P/0"] == {"stored": "11", "targets": "11"}

    def test_crash_and_restart_are_harmless_where_there_is_nothing_to_do(self) -> None:
        harmless = ['restart = "b.1"', 'heal = ["a.0", "b.0"]', 'heal = ["a.0", "a.1"]']
        twice = ['crash = "c.0"', 'crash = "c.0"', 'restart = "c.0"', 'restart = "c.0"']
        result = run(*harmless, *twice, *harmless, publish(9))
        assert received(result, "S") == received(result, "T") == [0]
        assert result.complaints() == []
        once = run('crash = "c.0"', 'restart = "c.0"', publish(9))
        assert result.messages() == once.messages()

    @pytest.mark.parametrize("apart_ms", [0, 0.5, 1, 30])
    def test_a_restart_right_after_the_crash(self, apart_ms: float) -> None:
        result = run('crash = "b.0"\nat_ms = 10', f'restart = "b.0"\nat_ms = {10 + apart_ms}', publish(9))
        assert received(result, "S") == received(result, "T") == [0]
        assert result.complaints() == []

    def test_a_crash_while_publications_are_under_way_loses_only_those(self) -> None:
        result = run(
            publish(9, more="count = 40\nevery_ms = 10\nat_ms = 0"),
            'crash = "b.0"\nat_ms = 100',
            'restart = "b.0"\nat_ms = 200',
            publish(8),
        )
        assert result.complaints() == []
        numbers = received(result, "S")
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == 40
        # What is made while b.0 is down waits at a.0, and goes on when it is back.
        assert 30 <= len(numbers) <= 41

    def test_every_broker_crashes_and_comes_back(self) -> None:
        brokers = [f"{region}.{cluster}" for region in "abc" for cluster in (0, 1)]
        events = [f'crash = "{each}"' for each in brokers] + [f'restart = "{each}"' for each in brokers]
        result = run(*events, publish(9))
        assert received(result, "S") == received(result, "T") == [0]
        assert result.complaints() == []
        assert result.to_json()["tables"] == run(publish(9)).to_json()["tables"]

    def test_a_restarted_broker_does_not_wait_for_a_copy_that_was_lost(self) -> None:
        slow = '[[link]]\nfrom = "a.0"\nto = "b.0"\nrate = 0.1\n'
        events = [
            publish(7, more="at_ms = 0"),
            'crash = "a.0"\nat_ms = 2000',
            'restart = "a.0"\nat_ms = 3000',
            publish(8, more="at_ms = 4000"),
        ]
        result = run(*events, clients=f"{slow}{CLIENTS}")
        # The first copy would have occupied the link until 10 s after it was published.
        [delivery] = [each for each in result.recorder.deliveries if each.client == "S"]
        assert (delivery.publication, result.complaints()) == (1, [])
        assert 10_000 < delivery.delay_ms < 10_100


class TestCutAndHeal:
    def test_publications_for_a_cut_link_arrive_after_heal(self) -> None:
        cut = run('cut = ["b.0", "c.0"]', publish(9), publish(8))
        assert received(cut, "S") == []
        assert received(cut, "T") == [0, 1]
        assert cut.complaints() == []
        healed = run('cut = ["b.0", "c.0"]', publish(9), publish(8), 'heal = ["c.0", "b.0"]')
        assert received(healed, "S") == [0, 1]
        assert healed.complaints() == []

    def test_dynamic_routing_goes_around_a_cut_ilink(self) -> None:
        head = HEAD.replace("clusters = 2", "clusters = 3")
        clients = CLIENTS + '[[client]]\nname = "U"\nbroker = "a.2"\nsubscribe = ["x > 5"]\n'
        result = run('cut = ["a.0", "a.1"]', publish(9), head=head, clients=clients)
        assert received(result, "T") == received(result, "U") == received(result, "S") == [0]
        assert [each.path for each in result.recorder.deliveries if each.client == "T"] == [
            ("a.0", "a.2", "a.1", "b.1")
        ]

    def test_static_routing_waits_for_a_cut_ilink(self) -> None:
        head = HEAD + '[routing]\nalgorithm = "static"\n'
        events = ['cut = ["a.0", "a.1"]', publish(9)]
        assert received(run(*events, head=head), "T") == []
        assert received(run(*events, 'heal = ["a.0", "a.1"]', head=head), "T") == [0]

    def test_a_cut_that_nobody_noticed(self) -> None:
        result = run(
            publish(9, more="count = 20\nevery_ms = 5\nat_ms = 0"),
            'cut = ["b.0", "c.0"]\nat_ms = 30',
            'heal = ["b.0", "c.0"]\nat_ms = 60',
        )
        assert received(result, "S") == list(range(20))
        assert result.complaints() == []
        assert result.messages()["sync"] == 0, "the connection was never given up"

    def test_what_was_asked_while_a_link_was_cut_is_in_force_after_heal(self) -> None:
        result = run(
            'cut = ["b.0", "c.0"]',
            'client = "S"\nunsubscribe = "S/0"',
            'client = "S"\nsubscribe = "x = 1"',
            'client = "P"\nadvertise = "x >= 0 AND y > 0"',
            'heal = ["b.0", "c.0"]',
            publish(9),
            publish(1),
        )
        assert received(result, "S") == [1]
        assert result.complaints() == []

    def test_an_overlay_cut_in_two_becomes_one_again(self) -> None:
        links = ['["a.0", "b.0"]', '["a.1", "b.1"]']
        result = run(
            *(f"cut = {each}" for each in links),
            publish(9),
            'crash = "b.0"',
            'restart = "b.0"',
            *(f"heal = {each}" for each in links),
            publish(8),
        )
        assert received(result, "S") == received(result, "T") == [0, 1]
        assert result.complaints() == []

    def test_a_cut_while_a_broker_is_down(self) -> None:
        result = run(
            'crash = "b.0"',
            'cut = ["b.0", "c.0"]',
            'restart = "b.0"',
            publish(9),
            'heal = ["b.0", "c.0"]',
            publish(8),
        )
        assert received(result, "S")[-1] == 1
        assert result.complaints() == []


class TestSlowClients:
    def test_a_slow_client_gets_everything_late(self) -> None:
        result = run('client = "T"\nslow = 10', publish(9, more="count = 20"))
        assert received(result, "T") == received(result, "S") == list(range(20))
        late = [each.delay_ms for each in result.recorder.deliveries if each.client == "T"]
        assert late == sorted(late)
        assert late[-1] >= 1900.0
        assert max(each.delay_ms for each in result.recorder.deliveries if each.client == "S") < 10.0
        assert result.complaints() == []

    def test_it_stays_slow_after_its_broker_restarted(self) -> None:
        result = run('client = "T"\nslow = 10', 'crash = "b.1"', 'restart = "b.1"', publish(9, more="count = 20"))
        late = [each.delay_ms for each in result.recorder.deliveries if each.client == "T"]
        assert len(late) == 20
        assert late[-1] >= 1900.0

    def test_it_may_become_slow_while_its_broker_is_down(self) -> None:
        result = run('crash = "b.1"', 'client = "T"\nslow = 10', 'restart = "b.1"', publish(9, more="count = 20"))
        assert [each.delay_ms for each in result.recorder.deliveries if each.client == "T"][-1] >= 1900.0

    def test_one_that_is_far_too_slow_is_cut_off_and_others_do_not_notice(self) -> None:
        head = '[overlay]\ntree = "a"\nclusters = 1\n'
        clients = """
[[client]]
name = "P"
broker = "a.0"
advertise = ["x >= 0"]
[[client]]
name = "slow"
broker = "a.0"
subscribe = ["x >= 0"]
[[client]]
name = "quick"
broker = "a.0"
subscribe = ["x >= 0"]
"""
        count = 10_050
        events = ['client = "slow"\nslow = 1', publish(1, more=f"count = {count}\nevery_ms = 0.01")]
        result = run_scenario(scenario(*events, head=head, clients=clients))
        assert received(result, "quick") == list(range(count))
        assert len(received(result, "slow")) < 10
        [node] = result.world.nodes
        assert node.lost_by_slow_clients > 10_000
        assert result.to_json()["tables"]["a.0"]["prt"] == 1, "what it had asked for is withdrawn"

    def test_a_client_that_was_cut_off_is_not_told_that_its_broker_is_down(self) -> None:
        head = '[overlay]\ntree = "a"\nclusters = 1\n'
        clients = '[[client]]\nname = "P"\nbroker = "a.0"\nadvertise = ["x >= 0"]\nsubscribe = ["x >= 0"]\n'
        events = ['client = "P"\nslow = 1', publish(1, more="count = 10050\nevery_ms = 0.01"), publish(2)]
        result = run_scenario(scenario(*events, head=head, clients=clients))
        assert result.recorder.refused
        told, *refused = result.recorder.refused
        assert told.reason.startswith("it was too slow and was cut off: 10001 deliveries were lost")
        assert {each.reason for each in refused} == {"it was too slow and was cut off"}
        assert result.losses()["lost_by_slow_clients"] == result.to_json()["losses"]["lost_by_slow_clients"] > 10_000

    def test_the_check_says_what_it_does_not_vouch_for(self) -> None:
        result = run('cut = ["a.0", "b.0"]', publish(9))
        assert result.ledger.under_way == [0]
        assert result.losses() == {}
        assert "losses" not in result.to_json()


class TestBadNetworks:
    @pytest.mark.parametrize("seed", range(5))
    def test_frames_that_are_dropped_doubled_and_reordered(self, seed: int) -> None:
        head = with_simulator("drop = 0.2\nduplicate = 0.2\nreorder = 0.3")
        result = run(publish(9, more="count = 60\nevery_ms = 4"), publish(8), head=head, seed=seed)
        assert received(result, "S") == received(result, "T") == list(range(61))
        assert result.complaints() == []
        assert isinstance(result.world.links, FaultyLinks)
        counters = result.world.links.counters
        assert counters.dropped > 0
        assert counters.duplicated > 0
        assert counters.reordered > 0

    def test_with_crashes_and_cuts_on_top(self) -> None:
        head = with_simulator("drop = 0.1\nduplicate = 0.1\nreorder = 0.2\nqueue_capacity = 3\nwindow_bytes = 200")
        result = run(
            publish(9, more="count = 30\nevery_ms = 20\nat_ms = 0"),
            'cut = ["b.0", "c.0"]\nat_ms = 100',
            'heal = ["b.0", "c.0"]\nat_ms = 400',
            'crash = "b.1"\nat_ms = 450',
            'restart = "b.1"\nat_ms = 900',
            publish(8),
            head=head,
        )
        assert received(result, "S") == list(range(31))
        assert result.complaints() == []


class TestRepeatability:
    EVENTS = (
        publish(9, more="count = 30\nevery_ms = 20\nat_ms = 0"),
        'cut = ["b.0", "c.0"]\nat_ms = 100',
        'heal = ["b.0", "c.0"]\nat_ms = 400',
        'crash = "b.0"\nat_ms = 450',
        'restart = "b.0"\nat_ms = 900',
        publish(8),
    )
    BAD = with_simulator("drop = 0.1\nduplicate = 0.1\nreorder = 0.2\nqueue_capacity = 3")

    def bytes_of(self, **options: Any) -> str:
        return json.dumps(run(*self.EVENTS, head=self.BAD, **options).to_json())

    def test_the_same_bytes_every_time(self) -> None:
        assert self.bytes_of() == self.bytes_of()

    def test_another_seed_is_another_run(self) -> None:
        assert self.bytes_of(seed=1) == self.bytes_of(seed=1)
        assert self.bytes_of(seed=1) != self.bytes_of(seed=2)
