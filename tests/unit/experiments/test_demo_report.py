"""The pictures and the page of the demo, from made-up results."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
from demo_outcomes import AUDIT, BUSY, CALM, FAULTY, outcome
from typer.testing import CliRunner

from octopia.experiments.demo.pictures import Pictures, draw_pictures, in_percent
from octopia.experiments.demo.report import in_units, next_steps, result_rows, rows_afterwards, shortage, write_report
from octopia.experiments.page import Picture

pytest.importorskip("matplotlib")
PICTURE = Picture("A picture", "figures/one.png", "figures/one.svg", "Look at it.")


def written(tmp_path: Path, **options) -> tuple[str, str]:
    page = write_report(outcome(**options), Pictures(PICTURE, PICTURE, PICTURE, PICTURE), tmp_path)
    assert page == tmp_path / "report.html"
    return page.read_text(), (tmp_path / "report.md").read_text()


def test_the_page_tells_what_was_done_and_what_came_of_it(tmp_path: Path):
    for text in written(tmp_path):
        for part in ("18.0 s", "250 ms", "The aLink b.3 - a.3 and the iLink b.3 - b.0 carry 50", "1,234",
                     "b.1 is killed", "91.6%", "Nothing arrived twice", "figures/one.png", "octopia paper",
                     "160 per second"):  # fmt: skip
            assert part in text, part
        assert "CPUs were short" not in text


def test_the_page_says_when_cpus_were_short_and_when_the_audit_found_faults(tmp_path: Path):
    for text in written(tmp_path, audit=FAULTY, cpu=BUSY):
        assert "CPUs were short: with static routing, brokers or clients waited for other processes" in text
        assert "The audit found faults" in text
        assert "Nothing arrived twice" not in text


def test_the_cause_of_a_shortage_is_that_of_the_run():
    busy = dataclasses.replace(CALM, busiest_worker=0.97, total_max=0.99, busy_share=0.5)
    assert shortage(outcome(cpu=busy)).startswith(
        "CPUs were short: with static routing, one process used up to 97% of a CPU and all processes used "
        "up to 99% of all CPUs. So the delays of these runs"
    )


@pytest.mark.parametrize(
    ("name", "limit", "cause"),
    [
        ("waited_max", 0.2, "in one second 20% of the time"),
        ("busiest_worker", 0.9, "one process used up to 90%"),
        ("total_max", 0.95, "all processes used up to 95%"),
    ],
)
def test_a_share_that_was_rounded_to_its_limit_is_a_cause(name: str, limit: float, cause: str):
    assert cause in shortage(outcome(cpu=dataclasses.replace(CALM, busy_share=0.5, **{name: limit})))


def test_where_the_use_of_processors_is_unknown_the_page_has_none(tmp_path: Path):
    page, _ = written(tmp_path, cpu=None)
    assert page.count("Busiest brokers") == 1  # of the other runs


def test_rows_of_results():
    static, dynamic, adaptive = result_rows(outcome())
    assert static == ("static", "1,000", "1,000", "9.0 s", "17.8 s", "18.0 s")
    assert (dynamic[0], adaptive[5]) == ("dynamic", "250 ms")


def test_rows_after_the_broker_was_killed():
    static, _, adaptive = rows_afterwards(outcome())
    assert static == ("static", "600", "540", "90%", "5.0 ms", "5.0 ms")
    assert adaptive[:4] == ("adaptive", "600", "600", "100%")


@pytest.mark.parametrize(("share", "text"), [(1.0, "100%"), (0.99999, "99.9%"), (0.8974, "89.7%")])
def test_only_everything_is_a_hundred_percent(share: float, text: str):
    assert in_percent(share) == text


@pytest.mark.parametrize(("delay_ms", "text"), [(1.25, "1.2 ms"), (12.3, "12 ms"), (999.0, "999 ms"), (1000, "1.0 s")])
def test_delays_have_units(delay_ms: float, text: str):
    assert in_units(delay_ms) == text


def test_an_outcome_is_clean_if_every_run_is():
    assert outcome(AUDIT).is_clean
    assert not outcome(FAULTY).is_clean
    assert not outcome(lost_adaptively=1).is_clean
    assert outcome(cpu=BUSY).is_short


def test_an_outcome_as_json():
    found = outcome().to_json()
    assert found["throttled"][0] == {"between": ["b.3", "a.3"], "rate": 50.0}
    assert [run["algorithm"] for run in found["runs"]] == ["static", "dynamic", "adaptive"]
    assert found["runs"][0]["slow_links"]["delay_ms_max"] == 18_000.0
    assert "sync" not in found["runs"][0]["messages"]


def test_what_to_try_next_begins_with_commands_that_are_there(tmp_path: Path):
    from octopia.cli import app

    for step in next_steps(tmp_path):
        assert CliRunner().invoke(app, [*shlex.split(step)[1:], "--help"]).exit_code == 0, step


def test_pictures_are_written_and_say_what_they_show(tmp_path: Path):
    drawn = draw_pictures(outcome(), tmp_path)
    pictures = (drawn.overlay, drawn.delays, drawn.shares, drawn.messages)
    for picture in pictures:
        assert (tmp_path / picture.png).read_bytes().startswith(b"\x89PNG")
    overlay, delays, shares, messages = ((tmp_path / picture.svg).read_text() for picture in pictures)
    assert texts(overlay).count("50/s") == 2
    assert "b.1 is killed later" in texts(overlay)
    assert "b.3 gets the burst: 160 publications per second" in texts(overlay)
    assert {"static routing", "dynamic routing", "adaptive routing", "the burst"} <= set(texts(delays))
    assert {"90% (540 of 600)", "100% (600 of 600)"} <= set(texts(shares))
    assert texts(messages).count("20,000") >= 2
    assert "sync" not in texts(messages)


def texts(svg: str) -> list[str]:
    """Matplotlib writes every text as a comment before its outlines."""
    return [each.strip() for each in re.findall(r"<!-- (.*?) -->", svg)]
