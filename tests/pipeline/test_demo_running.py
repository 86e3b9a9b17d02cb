"""The demo on the small workload that tests share: played on real brokers and audited."""

import shutil

import pytest
from small import SMALL

from octopia.experiments.demo import outcome as demo_outcome
from octopia.experiments.demo.outcome import compare_routing, run_demo
from octopia.experiments.demo.plan import Plan
from octopia.pipeline import jobs

FAST = Plan(SMALL, symbols=40, days=20, link_rate=60.0, speed=10.0)
"""Its burst of 60 publications comes within a tenth of a second, and takes a slow link a second."""


@pytest.fixture(scope="module")
def outcome(workspace, small_workload, tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    shutil.copytree(small_workload, out / "workload")
    return compare_routing(workspace, out, FAST)


def test_both_runs_deliver_what_they_owe(outcome):
    static, dynamic = outcome.sides
    assert (static.run.algorithm, dynamic.run.algorithm) == ("static", "dynamic")
    assert outcome.is_clean
    assert static.run.publications == dynamic.run.publications == 300
    assert static.run.deliveries == dynamic.run.deliveries == static.audit.owed == outcome.matches > 0


def test_static_routing_waits_for_the_slow_link_of_the_host(outcome):
    ((host, other),) = outcome.links
    assert (host, other.region) == (outcome.host, outcome.host.region)
    assert outcome.sides[0].delays.max_ms > 600


def test_steps_are_timed_one_after_the_other(outcome):
    assert [name for name, _ in outcome.steps] == ["static routing", "dynamic routing", "audit"]


def test_the_workload_and_its_truth_come_first(workspace, outcome, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(jobs, "make_workload", lambda _, folder, spec, market: made.append((folder, spec, market)))
    monkeypatch.setattr(jobs, "find_truth", lambda _, folder: made.append(folder) or 1234)
    monkeypatch.setattr(demo_outcome, "compare_routing", lambda *_: outcome)
    told = run_demo(workspace, tmp_path, FAST)
    workload = str(tmp_path / "workload")
    assert made == [(workload, SMALL, jobs.Market(symbols=40, days=20)), workload]
    assert told.matches == 1234
    assert [name for name, _ in told.steps][:3] == ["workload", "truth", "static routing"]
