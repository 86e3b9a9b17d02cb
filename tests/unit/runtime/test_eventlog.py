"""The event log: its lines, and the limit on repeated ones."""

import json
import logging
import re

import pytest

from octopia.ids import BrokerId, ClientId
from octopia.runtime import eventlog
from octopia.runtime.eventlog import EventKind, EventLog, JsonFormatter, RateLimit, fields_of, format_line, host_of

KEY = (EventKind.BAD_FRAME, "10.0.0.4")


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_line_has_the_event_first_and_no_empty_values():
    line = format_line(EventKind.REFUSED, broker="b.3", why="name_taken", peer="127.0.0.1:53122", client="", reason="x")
    assert line == "event=refused broker=b.3 why=name_taken peer=127.0.0.1:53122 reason=x"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("feed", "feed"),
        ("[::1]:7400", "[::1]:7400"),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "no"', r'"say \"no\""'),
        ("one\nevent=forged", r'"one\nevent=forged"'),
        ("\x1b[2J", r'"\u001b[2J"'),
        ("\u202egnp", r'"\u202egnp"'),
        ("Zürich", "Zürich"),
        ("in Zürich", '"in Zürich"'),
    ],
)
def test_values_are_quoted_only_where_needed(value: str, written: str):
    assert format_line(EventKind.VIOLATION, client=value) == f"event=violation client={written}"


def test_long_values_are_cut():
    assert len(format_line(EventKind.VIOLATION, client="x " * 10_000)) < 600
    assert len(format_line(EventKind.VIOLATION, client="x" * 10_000)) < 600


def test_the_other_end_is_a_client_or_a_neighbour():
    assert fields_of(ClientId("feed", 1)) == {"client": "feed"}
    assert fields_of(BrokerId("a", 1)) == {"neighbour": "a.1"}
    assert [host_of(each) for each in ("127.0.0.1:80", "[::1]:80", "unknown")] == ["127.0.0.1", "[::1]", "unknown"]


def test_a_source_writes_a_few_lines_per_minute():
    limit = RateLimit()
    allowed = sum(limit.allows(KEY, 1.0) for _ in range(100))
    assert allowed == eventlog.LINES_PER_MINUTE
    assert limit.allows((EventKind.VIOLATION, "10.0.0.4"), 1.0), "another kind"
    assert limit.allows((EventKind.BAD_FRAME, "10.0.0.5"), 1.0), "another source"
    assert list(limit.ended(60.9)) == []
    assert list(limit.ended(61.0)) == [(KEY, 100 - allowed)]
    assert limit.allows(KEY, 61.0)


def test_sources_beyond_the_maximum_share_one_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eventlog, "SOURCES_MAX", 10)
    limit = RateLimit()
    allowed = sum(limit.allows((EventKind.BAD_FRAME, str(number)), 0.0) for number in range(1000))
    assert allowed == 10 + eventlog.LINES_PER_MINUTE
    assert len(limit._periods) == 11
    assert sum(count for _, count in limit.ended(60.0)) == 1000 - allowed
    assert limit._periods == {}


def test_lines_and_counts_add_up(caplog: pytest.LogCaptureFixture):
    clock = Clock()
    events = EventLog(clock, broker="b.3")
    for number in range(1000):
        clock.now_s = number * 0.2
        events.note(EventKind.BAD_FRAME, "10.0.0.4", peer="10.0.0.4:1", reason="not a frame")
    events.flush(is_over=True)
    counts = [int(found) for found in re.findall(r"suppressed=(\d+)", caplog.text)]
    assert len(counts) == 4
    assert len(caplog.records) - len(counts) + sum(counts) == 1000
    assert "event=bad_frame broker=b.3 source=10.0.0.4 suppressed=" in caplog.text


def test_the_count_comes_by_itself_when_the_minute_ends(caplog: pytest.LogCaptureFixture):
    clock = Clock()
    events = EventLog(clock)
    for _ in range(10):
        events.note(EventKind.REFUSED, "10.0.0.4")
    events.flush()
    assert "suppressed" not in caplog.text
    clock.now_s = 60.0
    events.flush()
    assert caplog.records[-1].getMessage() == "event=refused source=10.0.0.4 suppressed=5"
    caplog.clear()
    events.flush(is_over=True)
    assert caplog.records == []


def test_an_error_brings_its_traceback(caplog: pytest.LogCaptureFixture):
    events = EventLog(Clock())
    events.note(EventKind.INTERNAL_ERROR, "feed", logging.ERROR, ValueError("wrong"), client="feed")
    assert "event=internal_error client=feed\nValueError: wrong" in caplog.text


def test_lines_below_the_level_cost_nothing(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    events = EventLog(Clock())
    events.note(EventKind.CONNECTED, "feed", logging.INFO)
    assert events._limit._periods == {}


def test_numbers_stay_numbers_and_an_unknown_one_is_null(caplog: pytest.LogCaptureFixture) -> None:
    events = EventLog(broker="b.3")
    events.note(EventKind.PUBLICATIONS_LOST, "x", cause="crash", count=7)
    events.note(EventKind.PUBLICATIONS_LOST, "x", cause="crash", count=None)
    known, unknown = caplog.records
    assert known.getMessage().endswith("cause=crash count=7")
    assert unknown.getMessage().endswith("cause=crash count=unknown")
    assert [json.loads(JsonFormatter().format(each))["count"] for each in caplog.records] == [7, None]


def test_an_event_is_a_json_object(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    events = EventLog(broker="b.3")
    try:
        raise ValueError("broken")
    except ValueError as error:
        events.note(
            EventKind.REFUSED, "feed", logging.ERROR, error, client="feed", why="", reason='a "b"\n' + "x" * 600
        )
    logging.getLogger("other").warning("hello %s", "there")
    first, other = (json.loads(JsonFormatter().format(each)) for each in caplog.records)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first.pop("traceback").endswith("ValueError: broken")
    assert first.pop("reason") == 'a "b"\n' + "x" * 494 + "…"
    assert first == {"level": "error", "event": "refused", "broker": "b.3", "client": "feed"}
    assert other.pop("time")
    assert other == {"level": "warning", "event": "message", "message": "hello there"}
