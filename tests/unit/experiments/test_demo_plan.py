"""What the demo plays, and where: chosen so that something must congest, and there is a way around."""

import dataclasses
from pathlib import Path

import pytest

from octopia.errors import UsageError
from octopia.experiments.demo.plan import DEMO, Plan
from octopia.experiments.slow_links import inner_broker, overlay_text, slow_links
from octopia.ids import BrokerId
from octopia.overlay.files import load_overlay, overlay_from_text


@pytest.mark.parametrize(
    ("host", "clusters", "ends"),
    [("b.3", 4, ["b.0", "b.1"]), ("a.0", 4, ["a.1", "a.2"]), ("c.1", 3, ["c.0"]), ("a.1", 2, ["a.0"])],
)
def test_two_ilinks_of_the_host_become_slow_and_one_stays_fast(host: str, clusters: int, ends: list[str]):
    links = slow_links(overlay_from_text("path:3", clusters).scot, BrokerId.parse(host))
    assert [(str(one), str(other)) for one, other in links] == [(host, end) for end in ends]


def test_one_cluster_has_no_ilinks():
    with pytest.raises(UsageError, match="at least 2 clusters"):
        slow_links(overlay_from_text("path:3", 1).scot, BrokerId("a", 0))


def test_the_overlay_file_throttles_both_directions(tmp_path: Path):
    links = slow_links(DEMO.workload.scot(), BrokerId("b", 3))
    file = tmp_path / "overlay.toml"
    file.write_text(overlay_text("demo", DEMO.workload, links, DEMO.link_rate))
    overlay = load_overlay(file)
    assert overlay.scot == DEMO.workload.scot()
    assert sorted(f"{one}>{other}" for one, other in overlay.shapes) == ["b.0>b.3", "b.1>b.3", "b.3>b.0", "b.3>b.1"]
    assert {shape.rate for shape in overlay.shapes.values()} == {DEMO.link_rate}


def test_the_demo_is_of_twelve_brokers_and_ends_in_time():
    assert len(DEMO.workload.scot().brokers) == 12
    begin, end = DEMO.burst_s
    drained_s = begin + DEMO.burst.publications / DEMO.link_rate
    assert end < drained_s < 40


def test_links_must_carry_at_most_half_of_the_burst():
    with pytest.raises(UsageError, match="at most half"):
        dataclasses.replace(DEMO, link_rate=DEMO.burst_rate * 0.6)


def test_there_must_be_a_burst():
    with pytest.raises(UsageError, match="with a burst"):
        Plan(dataclasses.replace(DEMO.workload, burst=None), 10, 10, 1.0, 1000.0)


def test_a_broker_is_killed_after_the_burst():
    with pytest.raises(UsageError, match="an outage after the burst"):
        dataclasses.replace(DEMO, outage_ms=4000.0)


@pytest.mark.parametrize(
    ("tree", "clusters", "host", "slow", "killed"),
    [("path:3", 4, "b.3", "b.0", "b.1"), ("path:3", 2, "b.1", "b.0", "b.0"), ("path:4", 2, "c.0", "c.1", "b.0")],
)
def test_an_inner_broker_is_killed_that_has_no_slow_link_if_there_is_one(
    tree: str, clusters: int, host: str, slow: str, killed: str
):
    links = [(BrokerId.parse(host), BrokerId.parse(slow))]
    assert inner_broker(overlay_from_text(tree, clusters).scot, BrokerId.parse(host), links) == BrokerId.parse(killed)


def test_without_inner_brokers_none_can_be_killed():
    with pytest.raises(UsageError, match="an inner broker besides"):
        inner_broker(overlay_from_text("path:2", 2).scot, BrokerId("a", 0), [])
