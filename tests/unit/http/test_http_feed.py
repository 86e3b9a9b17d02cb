"""The feed: rates from counters, changes only, and events that do not flood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from http_support import link, report, snapshot

from octopia.http.feed import CALM_MS, Feed
from octopia.http.meter import Meter
from octopia.http.snapshot import NOT_RUNNING
from octopia.overlay.files import overlay_from_text

BROKERS = ("a.0", "a.1", "b.0", "b.1")


def feed() -> Feed:
    return Feed(overlay_from_text("a-b", 2), BROKERS)


def decoded(messages: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(message) for message in messages]


def whole(at_ms: float, changes: dict[str, dict[str, Any]] | None = None, **links: dict[str, Any]):
    ends = {"a.0": "a.1", "a.1": "a.0", "b.0": "b.1", "b.1": "b.0"}
    made = [
        report(name, {ends[name]: links.get(name.replace(".", ""), link())}, **(changes or {}).get(name, {}))
        for name in BROKERS
    ]
    return snapshot(at_ms, *made)


class TestMeter:
    def test_rates_are_those_of_the_last_two_seconds(self) -> None:
        meter = Meter()
        for second in range(10):
            sent = 0 if second < 5 else 30 * (second - 5)
            meter.add(snapshot(second * 1000.0, report("a.0", {"a.1": link(sent=sent)})))
        assert meter.scene().links[0].sent == 30.0

    def test_a_restarted_broker_has_no_negative_rate(self) -> None:
        meter = Meter()
        meter.add(snapshot(0.0, report("a.0", {"a.1": link(sent=900)}, published=500)))
        meter.add(snapshot(1000.0, report("a.0", {"a.1": link(sent=3)}, published=1)))
        assert meter.scene().links[0].sent == 0.0
        assert meter.scene().published == 0.0

    def test_the_share_of_congested_time(self) -> None:
        meter = Meter()
        meter.add(snapshot(0.0, report("a.0", {"a.1": link(congested_ms=100.0)})))
        meter.add(snapshot(1000.0, report("a.0", {"a.1": link(congested_ms=600.0)})))
        assert meter.scene().links[0].congested == 0.5

    def test_delays_of_the_last_minute_are_those_that_were_added(self) -> None:
        meter = Meter()
        counts = [0] * 21
        meter.add(snapshot(0.0, report("a.0", delays={"counts": [5], "sum_ms": 0.5})))
        counts[20] = 10
        meter.add(snapshot(30_000.0, report("a.0", delays={"counts": [5, *counts[1:]], "sum_ms": 100.0})))
        assert meter.delays().to_json() == {"p50_ms": 10.0, "p99_ms": 10.0, "count": 10}
        meter.add(snapshot(90_001.0, report("a.0", delays={"counts": [5, *counts[1:]], "sum_ms": 100.0})))
        assert meter.delays().count == 0
        assert len(meter.curve()) == 1


class TestTicks:
    def test_a_tick_has_changes_only(self) -> None:
        watched = feed()
        (first,) = decoded(watched.add(whole(0.0)))
        assert set(first["brokers"]) == set(BROKERS)
        assert first["links"]["a.0>a.1"]["sent"] == 0
        (second,) = decoded(watched.add(whole(500.0, {"b.1": {"published": 7}}, a0=link(sent=4))))
        assert second["brokers"] == {"b.1": {"published": 7}}
        assert second["links"] == {"a.0>a.1": {"sent": 4}}

    def test_a_whole_tick_has_everything(self) -> None:
        watched = feed()
        watched.add(whole(0.0))
        watched.add(whole(500.0, a0=link(sent=4)))
        tick = json.loads(watched.whole_tick())
        assert tick["whole"]
        assert len(tick["brokers"]) == 4
        assert tick["links"]["a.0>a.1"]["sent"] == 4

    def test_a_broker_that_is_gone_takes_its_links_along(self) -> None:
        watched = feed()
        watched.add(whole(0.0))
        gone = whole(500.0)
        del gone.reports["b.1"]
        gone.problems["b.1"] = "restarting in 0.1 s"
        *events, tick = decoded(watched.add(gone))
        assert [event["kind"] for event in events] == ["broker_down"]
        assert tick["links"]["b.1>b.0"] is None
        assert tick["brokers"]["b.1"]["problem"] == "restarting in 0.1 s"
        assert tick["story"]["text"].startswith("b.1 is not running.")

    def test_the_links_that_are_congested_are_those_of_the_sentence(self) -> None:
        watched = feed()
        for step in range(5):
            slow = link(rate=20.0, queue=9, congested_ms=500.0 * step)
            brief = link(congested_ms=200.0 * step)
            watched.add(whole(step * 500.0, a0=slow, a1=brief, b0=brief))
        tick = json.loads(watched.whole_tick())
        assert tick["story"]["text"].startswith("a.0 → a.1 (queue 9) is congested.")
        assert [name for name, each in tick["links"].items() if each["congested"]] == ["a.0>a.1"]
        assert tick["story"]["congested"] == ["a.0>a.1"]

    def test_many_congested_links_are_all_marked(self) -> None:
        names = [f"a.{each}" for each in range(6)]
        watched = Feed(overlay_from_text("a-b", 6), names)
        for step in range(3):
            slow = link(queue=9, congested_ms=500.0 * step)
            watched.add(snapshot(step * 500.0, *(report(name, {"b.0": slow}) for name in names)))
        tick = json.loads(watched.whole_tick())
        assert "and 3 more are congested" in tick["story"]["text"]
        assert tick["story"]["congested"] == [f"{name}>b.0" for name in names]
        assert all(each["congested"] for each in tick["links"].values())

    def test_the_greeting_says_what_can_be_done(self) -> None:
        watched = feed()
        watched.add(whole(0.0))
        hello = json.loads(watched.hello(may_command=True))
        assert hello["can"] == ["throttle", "lift", "cut", "heal", "route"]
        assert hello["overlay"]["choices"] == ["static", "dynamic", "adaptive"]
        assert ["a.0", "b.0", "alink"] in hello["overlay"]["links"]
        assert json.loads(watched.hello(may_command=False))["can"] == []


class TestEvents:
    def kinds(self, messages: list[bytes]) -> list[str]:
        return [each["kind"] for each in decoded(messages) if each["type"] == "event"]

    def test_congestion_is_told_once_and_its_end_after_a_while(self) -> None:
        watched = feed()
        kinds = []
        for step in range(20):
            congested_ms = 500.0 * min(step, 6)
            messages = watched.add(whole(step * 500.0, a0=link(congested_ms=congested_ms)))
            kinds += [(step, kind) for kind in self.kinds(messages)]
        assert [kind for _, kind in kinds] == ["congested", "free"]
        assert kinds[1][0] * 500.0 >= 6 * 500.0 + CALM_MS

    def test_links_that_the_sentence_leaves_out_are_no_event(self) -> None:
        watched = feed()
        seen = []
        for step in range(6):
            slow = link(rate=20.0, queue=9, congested_ms=500.0 * step)
            seen += decoded(watched.add(whole(step * 500.0, a0=slow, a1=link(congested_ms=200.0 * step))))
        assert [each["link"] for each in seen if each.get("kind") == "congested"] == ["a.0>a.1"]

    @pytest.mark.parametrize(
        ("problem", "text"),
        [
            (NOT_RUNNING, "b.1 is not running."),
            ("", "b.1 is not running: it does not answer."),
            ("restarting in 0.1 s", "b.1 is not running: restarting in 0.1 s."),
        ],
    )
    def test_a_broker_that_is_gone_is_told_with_what_is_known(self, problem: str, text: str) -> None:
        watched = feed()
        watched.add(whole(0.0))
        gone = whole(500.0)
        del gone.reports["b.1"]
        if problem:
            gone.problems["b.1"] = problem
        event, _ = decoded(watched.add(gone))
        assert event["text"] == text

    def test_a_limit_and_a_cut_are_told(self) -> None:
        watched = feed()
        watched.add(whole(0.0))
        assert self.kinds(watched.add(whole(500.0, a0=link(rate=50.0)))) == ["throttled"]
        assert self.kinds(watched.add(whole(1000.0))) == ["lifted"]
        cut = link(up=False, cut=True)
        messages = watched.add(whole(1500.0, a0=cut, a1=cut))
        assert self.kinds(messages) == ["down"]
        assert json.loads(messages[0])["text"] == "a.0 ↔ a.1 is cut."

    def test_a_change_of_routing_is_one_event(self) -> None:
        watched = feed()
        watched.add(whole(0.0))
        messages = watched.add(whole(500.0, {broker: {"routing": "static"} for broker in BROKERS}))
        assert self.kinds(messages) == ["routing"]
        assert json.loads(messages[0])["text"] == "4 brokers now use static routing."

    @pytest.mark.parametrize("count", [3, 30])
    def test_many_events_of_one_kind_become_one(self, count: int) -> None:
        names = [f"a.{each}" for each in range(count)]
        watched = Feed(overlay_from_text("a-b", count), names)
        watched.add(snapshot(0.0, *(report(name, {"b.0": link()}) for name in names)))
        messages = watched.add(snapshot(500.0, *(report(name, {"b.0": link(rate=5.0)}) for name in names)))
        assert len(self.kinds(messages)) == (3 if count == 3 else 1)
