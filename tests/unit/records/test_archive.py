"""The archive on disk: each row once, wherever a crash comes; days by the time of publication."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from octopia.content import Publication
from octopia.errors import DamagedData, InvalidData, UsageError
from octopia.protocol import Cause
from octopia.protocol.messages import Gap, Lost
from octopia.records import archive as archives
from octopia.records.archive import Archive, Rolled, read_commits, spool_of
from octopia.records.archiving import Archived, Archiving, _Roller
from octopia.records.history import Records
from octopia.records.rows import RowKind
from octopia.records.selection import Question
from octopia.records.spool import SpoolReader
from records_samples import (
    DAY_MS,
    INTEREST,
    MORNING_MS,
    add_to_archive,
    add_to_spool,
    found_in,
    numbered,
    numbers_of,
    received,
)


def test_rows_come_back_as_they_were_with_their_types_and_in_order(tmp_path: Path):
    attributes = {"n": 2**53 + 1, "price": 1.5, "symbol": "IBM", "is_open": True, "year": 0.0}
    one = received(1, attributes, payload=b"\x00\xff")
    add_to_archive(tmp_path, [(1, one), (2, Gap(Cause.NEW_SESSION, 3)), (3, Lost(2))])
    publication, gap, lost = found_in(tmp_path)
    back = publication.to_received()
    assert (back.id, back.hops, back.published_ms, back.received_ms) == (one.id, 2, one.published_ms, one.received_ms)
    assert publication.publication == Publication(attributes, b"\x00\xff")
    assert [type(each) for each in publication.publication.attributes.values()] == [int, float, str, bool, float]
    assert (gap.kind, gap.cause, gap.count) == (RowKind.GAP, "new_session", 3)
    assert (lost.kind, lost.count) == (RowKind.LOST, 2)


def test_late_publications_go_to_their_own_day_and_the_order_stays(tmp_path: Path):
    times = {0: MORNING_MS + 5.0, 1: MORNING_MS - 1.0, 2: MORNING_MS + DAY_MS, 3: 1e300, 4: MORNING_MS + 6.0}
    add_to_archive(tmp_path, numbered(*(received(n, published_ms=at_ms) for n, at_ms in times.items() if n != 3)))
    add_to_archive(tmp_path, numbered(received(5, published_ms=MORNING_MS - 2.0)))
    days = sorted(each.name for each in (tmp_path / "data").iterdir())
    assert days == ["day=2024-10-03", "day=2024-10-04", "day=2024-10-05"]
    assert len(list((tmp_path / "data" / "day=2024-10-03").iterdir())) == 2
    assert numbers_of(found_in(tmp_path)) == [0, 1, 2, 4, 5]
    late = Question(to_ms=MORNING_MS)
    assert numbers_of(found_in(tmp_path, late)) == [1, 5]
    assert sum(len(names) for part in Records(tmp_path).slices(late) for names in part.commits) == 2


def test_a_time_that_is_in_no_year_counts_as_the_time_of_reception(tmp_path: Path):
    add_to_archive(tmp_path, numbered(received(0, published_ms=-5.0), received(1, published_ms=1e300)))
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["day=1970-01-01"]
    assert numbers_of(found_in(tmp_path)) == [0, 1]


def test_other_tools_read_the_files_with_the_day_as_a_column(tmp_path: Path):
    add_to_archive(tmp_path, numbered(received(0), received(1, published_ms=MORNING_MS + DAY_MS)))
    table = ds.dataset(tmp_path / "data", partitioning="hive").to_table()
    assert sorted(table.column("day").to_pylist()) == ["2024-10-04", "2024-10-05"]
    assert sorted(table.column("number").to_pylist()) == [0, 1]


def test_what_is_in_no_file_yet_is_found_too(tmp_path: Path):
    add_to_archive(tmp_path, numbered(received(0), received(1)))
    add_to_archive(tmp_path, numbered(received(2)), is_rolled=False)
    assert numbers_of(found_in(tmp_path)) == [0, 1, 2]
    assert [each.end for each in read_commits(tmp_path)] == [2]


class CrashError(Exception):
    """Stands for the death of the process."""


@pytest.mark.parametrize("step", ["_write", "_commit", "after"])
def test_wherever_a_roll_dies_each_row_is_there_once(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch):
    add_to_archive(tmp_path, numbered(received(0)))
    events = numbered(received(1), received(2, published_ms=MORNING_MS + DAY_MS), received(3))
    add_to_archive(tmp_path, events, is_rolled=False)

    def die(*arguments: object) -> None:
        if step != "after":
            real(*arguments)
        raise CrashError

    with Archive(tmp_path, INTEREST) as writer, monkeypatch.context() as patch:
        if step == "_write":
            real = writer._write
        elif step == "_commit":
            real = lambda *_: None  # noqa: E731 - the files are there, the commit is not
        patch.setattr(*((archives, "Rolled") if step == "after" else (writer, step)), die)
        with pytest.raises(CrashError):
            writer.roll()
    assert numbers_of(found_in(tmp_path)) == [0, 1, 2, 3]
    with Archive(tmp_path, INTEREST) as writer:
        assert writer.removed == {"_write": 1, "_commit": 2, "after": 0}[step]
        assert writer.roll().rows == (0 if step == "after" else 3)
    assert numbers_of(found_in(tmp_path)) == [0, 1, 2, 3]
    assert SpoolReader(spool_of(tmp_path)).consumers.committed("archive") == 4
    named = {each.path for commit in read_commits(tmp_path) for each in commit.files}
    assert {str(each.relative_to(tmp_path)) for each in tmp_path.glob("data/*/*")} == named


def test_the_spool_forgets_only_what_is_in_files(tmp_path: Path):
    with Archive(tmp_path, INTEREST) as writer:
        spool = spool_of(tmp_path)
        add_to_spool(spool, numbered(*map(received, range(10))), block=1, segment_bytes=1)
        assert SpoolReader(spool).first_offset == 0
        writer.roll()
        add_to_spool(spool, numbered(*map(received, range(10, 14))), block=1, segment_bytes=1)
        assert SpoolReader(spool).first_offset == 10
    assert numbers_of(found_in(tmp_path)) == list(range(14))


def test_damage_and_wrong_use_are_told(tmp_path: Path):
    add_to_archive(tmp_path / "one", numbered(received(0)))
    add_to_archive(tmp_path / "one", numbered(received(1)))
    with pytest.raises(UsageError, match=r"expected the filter of the archive in .* n >= 0, got n > 7"):
        Archive(tmp_path / "one", "n > 7")
    with (
        Archive(tmp_path / "one", INTEREST),
        pytest.raises(UsageError, match="expected an archive that no other process writes to"),
    ):
        Archive(tmp_path / "one", INTEREST)
    shutil.rmtree(spool_of(tmp_path / "one"))
    add_to_spool(spool_of(tmp_path / "one"), numbered(received(0)))
    with (
        Archive(tmp_path / "one", INTEREST) as writer,
        pytest.raises(DamagedData, match=r"expected a spool with at least 2 rows in .*, got 1"),
    ):
        writer.roll()
    min((tmp_path / "one" / "commits").iterdir()).unlink()
    with pytest.raises(DamagedData, match=r"expected the rows from 0 on in .*, got 1"):
        found_in(tmp_path / "one")
    with pytest.raises(InvalidData, match="expected the folder of an archive or a spool, got"):
        Records(tmp_path)


def test_a_roll_of_large_rows_is_cut_into_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "_BYTES_AT_ONCE", 10_000)
    with Archive(tmp_path, INTEREST) as writer:
        large = [received(n, payload=bytes(3_000)) for n in range(20)]
        add_to_spool(spool_of(tmp_path), numbered(*large), block=2)
        assert writer.roll() == Rolled(20, 5, 20)
    assert [each.end for each in read_commits(tmp_path)] == [4, 8, 12, 16, 20]
    assert numbers_of(found_in(tmp_path)) == list(range(20))


def test_a_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "_ROWS_PER_GROUP", 3)
    add_to_archive(tmp_path, numbered(*map(received, range(8))))
    batches = list(Records(tmp_path).batches(Question()))
    assert [batch.column("number").to_pylist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("kept", [0, 1])
def test_files_whose_commits_are_missing_are_not_removed(tmp_path: Path, kept: int):
    add_to_archive(tmp_path, numbered(received(0)))
    add_to_archive(tmp_path, numbered(received(1)))
    for commit in sorted((tmp_path / "commits").iterdir())[kept:]:
        commit.unlink()
    with pytest.raises(DamagedData, match=rf"expected commits of the 2 rows .*, got commits of {kept} rows in"):
        Archive(tmp_path, INTEREST)
    assert len(list(tmp_path.glob("data/*/*"))) == 2


def test_a_roll_that_is_cancelled_still_counts(tmp_path: Path):
    class SlowWriter:
        """A writer of an archive whose roll a test lets end."""

        end = removed = 0
        has_begun, may_end = threading.Event(), threading.Event()

        def roll(self) -> Rolled:
            self.has_begun.set()
            self.may_end.wait()
            return Rolled(7, 2, 7)

    async def scenario() -> Archived:
        writer = SlowWriter()
        roller = _Roller(writer, Archiving("TRUE", tmp_path), lambda _: None)  # type: ignore[arg-type]
        rolling = asyncio.ensure_future(roller.roll())
        await asyncio.to_thread(writer.has_begun.wait)
        rolling.cancel()
        writer.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await rolling
        return roller.state

    state = asyncio.run(scenario())
    assert (state.files, state.in_files) == (2, 7)
