"""The demo on the small workload that tests share: played on real brokers and audited."""

import shutil

import pytest
from small import SMALL

from octopia.experiments.demo import outcome as demo_outcome
from octopia.experiments.demo.outcome import Outcome, compare_routing, run_demo
from octopia.experiments.demo.plan import Plan
from octopia.ids import BrokerId
from octopia.pipeline import jobs
from octopia.settings import Algorithm

FAST = Plan(SMALL, symbols=40, days=20, link_rate=60.0, outage_ms=8000.0, speed=10.0)
"""Its burst of 60 publications comes within a tenth of a second, and takes a slow link a second.

A broker is killed after about half of the other publications.
"""


def compare(workspace, small_workload, out):
    shutil.copytree(small_workload, out / "workload")
    return compare_routing(workspace, out, FAST)


@pytest.fixture(scope="module")
def outcome(workspace, small_workload, tmp_path_factory):
    return compare(workspace, small_workload, tmp_path_factory.mktemp("demo"))


def test_adaptive_routing_delivers_all_it_owes_although_a_broker_dies(workspace, small_workload, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_outcome, "ALGORITHMS", (Algorithm.ADAPTIVE,))
    found = compare(workspace, small_workload, tmp_path / "demo")
    (adaptive,) = found.sides
    assert found.is_clean
    assert adaptive.run.publications + adaptive.run.unsent == 300
    assert adaptive.delays.count == adaptive.owed > 0
    assert adaptive.owed_later > 0
    assert adaptive.missing.gone > 0
    assert (adaptive.share_later, adaptive.missing.cut_off) == (1.0, 0)
    assert [name for name, _ in found.steps] == ["adaptive routing", "audit"]


@pytest.mark.soak
def test_all_runs_deliver_what_they_owe_while_all_brokers_live(outcome):
    assert [side.run.algorithm for side in outcome.sides] == ["static", "dynamic", "adaptive"]
    assert outcome.is_clean
    for side in outcome.sides:
        assert side.run.publications + side.run.unsent == 300
        assert side.delays.count == side.owed == outcome.sides[0].owed > 0
        assert side.run.deliveries == side.delays.count + side.later.count


@pytest.mark.soak
def test_only_adaptive_routing_reaches_everybody_when_an_inner_broker_is_dead(outcome):
    static, dynamic, adaptive = outcome.sides
    assert outcome.dead.region == "b"
    assert static.owed_later == dynamic.owed_later == adaptive.owed_later > 0
    assert static.missing.cut_off >= dynamic.missing.cut_off > 0
    assert static.missing.gone == adaptive.missing.gone > 0
    assert (adaptive.share_later, adaptive.missing.cut_off) == (1.0, 0)


@pytest.mark.soak
def test_static_routing_waits_for_the_slow_links_of_the_host(outcome):
    (host, beyond), (_, other) = outcome.links
    assert host == outcome.host
    assert (beyond.cluster, other.region) == (host.cluster, host.region)
    assert outcome.sides[0].delays.max_ms > 600


@pytest.mark.soak
def test_steps_are_timed_one_after_the_other(outcome):
    steps = ["static routing", "dynamic routing", "adaptive routing", "audit"]
    assert [name for name, _ in outcome.steps] == steps


def test_the_workload_and_its_truth_come_first(workspace, tmp_path, monkeypatch):
    made = []
    a, b, c = (BrokerId.parse(name) for name in ("a.0", "b.0", "b.1"))
    links = ((a, b), (b, c))
    compared = Outcome(FAST, a, links, b, 1, (), (("static routing", 1.0),))
    monkeypatch.setattr(jobs, "make_workload", lambda _, folder, spec, market: made.append((folder, spec, market)))
    monkeypatch.setattr(jobs, "find_truth", lambda _, folder: made.append(folder) or 1234)
    monkeypatch.setattr(demo_outcome, "compare_routing", lambda *_: compared)
    told = run_demo(workspace, tmp_path, FAST)
    workload = str(tmp_path / "workload")
    assert made == [(workload, SMALL, jobs.Market(symbols=40, days=20)), workload]
    assert told.matches == 1234
    assert [name for name, _ in told.steps][:3] == ["workload", "truth", "static routing"]
