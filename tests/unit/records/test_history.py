"""History: rows are selected as brokers match them, by time as well, from archives and spools alike."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from octopia.cli import app
from octopia.content import format_filter, matches, normalise
from octopia.errors import DamagedData, InvalidFilter, UsageError
from octopia.protocol import Cause
from octopia.protocol.messages import Gap
from octopia.records.archive import Archive, spool_of
from octopia.records.history import Records, read_slice
from octopia.records.selection import Question, Selection, time_ms
from octopia.records.spool import SpoolReader
from property.content_strategies import expressions, predicates, publications
from records_samples import (
    DAY_MS,
    INTEREST,
    MORNING_MS,
    add_to_archive,
    add_to_spool,
    batch_of,
    found_in,
    numbered,
    numbers_of,
    received,
)


@given(st.lists(publications(), min_size=1, max_size=100), expressions(predicates()))
def test_the_rows_of_a_question_are_those_that_match(contents, expression):
    try:
        interest = normalise(expression)
        text = format_filter(interest)
    except InvalidFilter:
        return
    batch = batch_of(numbered(*(received(n, dict(each.attributes)) for n, each in enumerate(contents))))
    found = Selection(Question(text)).select(batch)
    expected = [n for n, each in enumerate(contents) if matches(interest, each)]
    assert found.column("number").to_pylist() == expected


EVENTS = [
    *numbered(*(received(n, {"n": n, "symbol": "IBM" if n % 2 else "SAP"}, payload=b"p") for n in range(6))),
    (7, Gap(Cause.NEW_SESSION, 0)),
]


@pytest.fixture(params=["spool", "archive"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    add = add_to_spool if request.param == "spool" else add_to_archive
    add(tmp_path, EVENTS)
    return tmp_path


def test_filters_times_and_notices_are_selected(folder: Path):
    assert numbers_of(found_in(folder, Question("symbol = 'IBM'"))) == [1, 3, 5]
    assert numbers_of(found_in(folder, Question("symbol = 'IBM'", MORNING_MS + 1, MORNING_MS + 5))) == [1, 3]
    assert [row.kind for row in found_in(folder, Question("n > 4"))] == ["publication", "gap"]
    assert [row.kind for row in found_in(folder, Question("n > 4", has_notices=False))] == ["publication"]
    assert [row.kind for row in found_in(folder, Question("n > 9", from_ms=MORNING_MS + 1))] == []


def test_times_are_read_and_anything_else_is_refused():
    assert time_ms(None, 5.0) == 5.0
    assert time_ms("1795000000000", 0.0) == 1795000000000.0
    assert time_ms("1970-01-02", 0.0) == time_ms("1970-01-02T01:00+01:00", 0.0) == 86_400_000.0
    for text in ("nan", "yesterday", ""):
        with pytest.raises(UsageError, match="expected a time such as 2026-11-18"):
            time_ms(text, 0.0)


@pytest.mark.parametrize("read_before", [0, 1, 3])
def test_rows_that_are_rolled_during_a_read_come_once(tmp_path: Path, read_before: int):
    add_to_archive(tmp_path, numbered(*map(received, range(4))))
    spool = spool_of(tmp_path)
    add_to_spool(spool, numbered(*map(received, range(4, 10))), block=1, segment_bytes=1)
    _, in_spool = Records(tmp_path).slices(Question())
    batches = read_slice(in_spool)
    found = [next(batches) for _ in range(read_before)]
    with Archive(tmp_path, INTEREST) as writer:
        # Two days, so that a commit has two files whose rows alternate.
        late = [received(n, published_ms=MORNING_MS + DAY_MS * (n % 2)) for n in range(10, 14)]
        add_to_spool(spool, numbered(*late), block=1, segment_bytes=1)
        writer.roll()
        add_to_spool(spool, numbered(received(14)), block=1, segment_bytes=1)
    assert SpoolReader(spool).first_offset > 9, "the rows are no longer in the spool"
    found += batches
    assert [n for batch in found for n in batch.column("offset").to_pylist()] == list(range(4, 10))
    longer = dataclasses.replace(in_spool, first=2, end=15)
    assert [n for batch in read_slice(longer) for n in batch.column("number").to_pylist()] == list(range(2, 15))


def test_rows_that_a_spool_has_removed_are_missed(tmp_path: Path):
    add_to_spool(tmp_path, numbered(*map(received, range(4))), block=1, segment_bytes=1)
    (part,) = Records(tmp_path).slices(Question())
    SpoolReader(tmp_path).consumers.commit("report", 3)
    add_to_spool(tmp_path, numbered(received(4)), block=1, segment_bytes=1)
    with pytest.raises(DamagedData, match=r"expected the rows 0 to 3 of .*, got none from 0 on: .* read again"):
        list(read_slice(part))


def test_reading_starts_no_thread(tmp_path: Path):
    """A thread of Arrow that still holds a file when the interpreter ends aborts the process."""
    add_to_archive(tmp_path, EVENTS)
    program = (
        "import os, pathlib, sys, octopia.records.history as history\n"
        "threads = lambda: sorted(os.listdir('/proc/self/task'))\n"
        "before, records = threads(), history.Records(pathlib.Path(sys.argv[1]))\n"
        "print(len(list(records.rows(history.Question('n >= 0')))), threads() == before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "7 True\n"


def history(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["history", *arguments])
    if isinstance(result.exception, UsageError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_the_command_prints_rows_as_a_subscriber_sees_them(folder: Path):
    out, err = history("n >= 4", "--archive", str(folder))
    assert out == "n=4 symbol=SAP p\nn=5 symbol=IBM p\n"
    assert err == "some publications may be missing here (new_session)\n"
    out, _ = history("n >= 4", "--archive", str(folder), "--json")
    first, second, gap = map(json.loads, out.splitlines())
    assert first == {
        "id": "a.0/1/4",
        "attributes": {"n": 4, "symbol": "SAP"},
        "payload": "p",
        "published_ms": MORNING_MS + 4,
        "delay_ms": 2.0,
        "hops": 2,
    }
    assert second["attributes"] == {"n": 5, "symbol": "IBM"}
    assert gap == {"gap": {"cause": "new_session", "count": None}}


def test_the_command_takes_times_and_a_limit_and_warns(folder: Path):
    bounds = ("--from", "2024-10-04T00:00:00.002", "--to", str(MORNING_MS + 5))
    assert history("n >= 0", *bounds, "--archive", str(folder))[0].count("\n") == 3
    assert history("n >= 0", "--limit", "2", "--archive", str(folder))[0].count("\n") == 2
    assert history("n >= 0", "--from", "2024-10-05", "--archive", str(folder)) == ("", "")
    assert "warning: " in history("symbol = 'IBM'", "--archive", str(folder))[1]
    with pytest.raises(UsageError, match=r"expected a time such as .*, got 'noon'"):
        history("n >= 0", "--from", "noon", "--archive", str(folder))
