"""Links whose receivers limit them by credit, without faults."""

import dataclasses

import pytest

from octopia.broker import Detail
from octopia.errors import UsageError
from octopia.simulator.links import FaultyLinks, ReliableLinks
from octopia.simulator.profiles import UNIT, Profile, find_profile, write_profile
from octopia.simulator.run import Run
from support import RowList, run_text

BUSY = """
[overlay]
tree = "a-b, b-c"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "Q"
broker = "b.0"
advertise = ["x > 0"]
[[client]]
name = "S"
broker = "c.0"
subscribe = ["x > 0"]
[[event]]
at_ms = 0
client = "P"
publish = { x = 1 }
count = 200
every_ms = 1
[[event]]
at_ms = 0
client = "Q"
publish = { x = 1 }
count = 200
every_ms = 1
"""

SLOW_BROKERS = dataclasses.replace(UNIT, message_us=800.0)
LIMITED = dataclasses.replace(SLOW_BROKERS, credit_kib=1.0)
ALGORITHMS = ("static", "dynamic", "adaptive", "tid-static", "tid-dynamic")


def play(profile: Profile, algorithm: str = "static", links: str = "auto") -> tuple[Run, int]:
    """Return a run and the longest queue at a.0, which sends to a broker that is busy."""
    rows = RowList()
    text = f'{BUSY}[routing]\nalgorithm = "{algorithm}"\n[simulator]\nlinks = "{links}"\n'
    run = run_text(text, profile=profile, sinks=[rows], detail=Detail.ALL)
    return run, max(row.queue_length or 0 for row in rows.rows if row.broker == "a.0")


def test_what_a_busy_broker_has_not_placed_waits_at_its_neighbour():
    (free, free_queue), (limited, limited_queue) = play(SLOW_BROKERS), play(LIMITED)
    assert isinstance(free.world.links, ReliableLinks)
    assert isinstance(limited.world.links, FaultyLinks)
    assert free_queue == 1
    assert limited_queue > 50
    assert len(limited.recorder.deliveries) == len(free.recorder.deliveries) == 400


def test_less_credit_makes_longer_queues():
    queues = [play(dataclasses.replace(SLOW_BROKERS, credit_kib=kib))[1] for kib in (64.0, 2.0, 0.5)]
    assert queues == sorted(queues)
    assert queues[0] < queues[1] < queues[2]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_everything_arrives_once_under_every_algorithm(algorithm):
    run, _ = play(LIMITED, algorithm)
    assert run.complaints() == []
    assert run.losses() == {}
    assert len(run.recorder.deliveries) == 400


def test_a_broker_that_is_busy_for_long_is_not_taken_for_dead():
    run, _ = play(dataclasses.replace(LIMITED, message_us=50_000.0))
    assert run.world.agenda.now_ms > 10_000
    assert run.complaints() == []
    assert run.losses() == {}


def test_ideal_links_have_no_credit():
    with pytest.raises(UsageError, match=r'expected links = "session" or "auto".*credit_kib, got "ideal"'):
        play(LIMITED, links="ideal")


def test_sessions_of_a_scenario_take_the_window_of_the_profile():
    assert play(LIMITED, links="session")[1] > 50


def test_a_profile_file_may_limit_credit(tmp_path):
    path = write_profile(dataclasses.replace(LIMITED, name="mine"), tmp_path)
    assert find_profile(str(path)).credit_kib == 1.0
    assert LIMITED.assumptions()["credit_kib"] == 1.0


def test_the_smallest_credit_still_carries_one_publication_at_a_time():
    run, _ = play(dataclasses.replace(SLOW_BROKERS, credit_kib=0.0001))
    assert len(run.recorder.deliveries) == 400


@pytest.mark.parametrize("window_bytes", [512, 65_536])
def test_the_window_of_a_scenario_takes_precedence(window_bytes: int):
    run = run_text(f"{BUSY}[simulator]\nwindow_bytes = {window_bytes}\n", profile=LIMITED)
    assert isinstance(run.world.links, FaultyLinks)
    sessions = run.world.links._settings
    assert sessions.window_bytes == window_bytes
