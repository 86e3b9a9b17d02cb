"""The spool on disk: what was synced is never lost, what was torn is never served."""

from __future__ import annotations

import errno
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.client import Received
from octopia.content import Publication
from octopia.errors import DamagedData, InvalidData, UsageError
from octopia.ids import BrokerId, PublicationId
from octopia.protocol import Cause
from octopia.protocol.messages import Deliver, Gap, Lost
from octopia.records.rows import RowKind, merge, to_batch, to_rows
from octopia.records.segments import first_offset_of, segments_in
from octopia.records.spool import SEGMENT_BYTES, Retention, Spool, SpoolReader, _read_end, open_spool

INTEREST = "n >= 0"
HOST = BrokerId("a", 0)


def received(n: int, payload: bytes = b"") -> Received:
    return Received(Deliver(PublicationId(HOST, 1, n), Publication({"n": n}, payload), (1,), 2, 5.0), 7.0, n + 1)


def rows(*numbers: int, payload: bytes = b"") -> pa.RecordBatch:
    return to_batch([(n + 1, received(n, payload)) for n in numbers], 0.0)


def numbers_in(folder: Path, start: int = 0, end: int = 10**9) -> list[object]:
    reader = SpoolReader(folder)
    return [
        row.publication.attributes["n"]
        for _, batch in reader.read(start, end)
        for row in to_rows(batch)
        if row.publication is not None
    ]


# Rows.


def test_rows_have_everything_and_come_back_as_they_were():
    attributes = {"n": 2**53 + 1, "price": 1.5, "symbol": "IBM", "is_open": True, "year": 0.0}
    one = Received(Deliver(PublicationId(HOST, 3, 4), Publication(attributes, b"\x00\xff"), (1,), 2, 5.5), 7.5, 9)
    events = merge([one], [(8, Gap(Cause.NEW_SESSION, 3)), (10, Lost(2))])
    gap, publication, lost = to_rows(to_batch(events, 99.0))
    assert (gap.kind, gap.cause, gap.count, gap.received_ms) == (RowKind.GAP, "new_session", 3, 99.0)
    assert (lost.kind, lost.cause, lost.count) == (RowKind.LOST, "", 2)
    assert publication.publication == Publication(attributes, b"\x00\xff")
    assert [type(each) for each in publication.publication.attributes.values()] == [int, float, str, bool, float]
    assert (publication.id, publication.hops) == (one.id, 2)
    assert (publication.published_ms, publication.received_ms) == (5.5, 7.5)


def test_a_notice_with_the_number_of_a_publication_comes_after_it():
    (_, first), (_, second) = merge([received(4)], [(5, Gap(Cause.NEW_SESSION))])
    assert isinstance(first, Received)
    assert isinstance(second, Gap)


# A disk that fails.


def fail(_: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_spool_ends_at_the_first_failure_of_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with open_spool(tmp_path, INTEREST) as spool:
        spool.append(rows(0, 1), "p1")
        spool.sync()
        spool.append(rows(2), "p2")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="Input/output error"):
                spool.sync()
        # The disk works again, but the rows that it lost would be taken as durable.
        with pytest.raises(OSError, match="Input/output error"):
            spool.sync()
        with pytest.raises(OSError, match="Input/output error"):
            spool.append(rows(3), "p3")
    assert numbers_in(tmp_path) == [0, 1]
    with open_spool(tmp_path, INTEREST) as again:
        assert (again.resume_point, again.end_offset) == ("p1", 2)


def test_a_spool_that_cannot_be_closed_in_order_lets_the_next_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spool = Spool(tmp_path, INTEREST, Retention(), SEGMENT_BYTES)
    spool.append(rows(0), "p1")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            spool.close()
    with open_spool(tmp_path, INTEREST) as again:
        assert (again.resume_point, again.end_offset) == ("", 0)


def test_a_spool_that_cannot_begin_a_segment_lets_the_next_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with open_spool(tmp_path, INTEREST, segment_bytes=1) as spool:
        spool.append(rows(0), "p1")
        spool.sync()
        with monkeypatch.context() as patched:
            patched.setattr(Path, "touch", fail)
            with pytest.raises(OSError, match="Input/output error"):
                spool.append(rows(1), "p2")
    with open_spool(tmp_path, INTEREST) as again:
        assert (again.resume_point, again.end_offset) == ("p1", 1)


def test_rows_that_a_process_left_behind_are_durable_before_they_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with open_spool(tmp_path, INTEREST) as spool:
        spool.append(rows(0), "p1")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            Spool(tmp_path, INTEREST, Retention(), SEGMENT_BYTES)
    with open_spool(tmp_path, INTEREST) as again:
        assert again.end_offset == 1


# Writing and reading.


def test_rows_are_served_once_they_are_durable(tmp_path: Path):
    with open_spool(tmp_path, INTEREST) as spool:
        reader = SpoolReader(tmp_path)
        spool.append(rows(0, 1, 2), "p1")
        assert (reader.end_offset, numbers_in(tmp_path)) == (0, [])
        spool.sync()
        assert (reader.first_offset, reader.end_offset) == (0, 3)
        spool.append(rows(3, 4), "p2")
        spool.sync()
        assert numbers_in(tmp_path) == [0, 1, 2, 3, 4]
        assert numbers_in(tmp_path, 1, 4) == [1, 2, 3]
        assert numbers_in(tmp_path, 2, 3) == [2]
        assert [offset for offset, _ in reader.read(1, 9)] == [1, 3]


def test_it_goes_on_where_it_was(tmp_path: Path):
    for part in range(3):
        with open_spool(tmp_path, INTEREST, segment_bytes=1) as spool:
            assert spool.end_offset == 2 * part
            assert spool.resume_point == (f"p{part}" if part else "")
            spool.append(rows(2 * part, 2 * part + 1), f"p{part + 1}")
    assert numbers_in(tmp_path) == list(range(6))
    assert len(segments_in(tmp_path)) == 3


def test_a_point_without_rows_is_remembered(tmp_path: Path):
    with open_spool(tmp_path, INTEREST) as spool:
        spool.append(rows(), "begin")
    with open_spool(tmp_path, INTEREST) as spool:
        assert (spool.end_offset, spool.resume_point) == (0, "begin")
    assert numbers_in(tmp_path) == []


def test_only_one_process_writes_and_only_one_filter(tmp_path: Path):
    with open_spool(tmp_path, INTEREST), pytest.raises(UsageError, match="that no other process writes to"):
        open_spool(tmp_path, INTEREST).__enter__()
    with pytest.raises(UsageError, match=r"expected the filter of the spool in .*, which is n >= 0, got n > 7"):
        open_spool(tmp_path, "n > 7").__enter__()
    with pytest.raises(InvalidData, match=r"expected a spool, got .*, which has no spool\.json"):
        SpoolReader(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="expected a folder that can be written"):
        open_spool(tmp_path / "file", INTEREST).__enter__()


# Crashes.


def torn(folder: Path) -> tuple[Path, int]:
    """Make a spool of two durable blocks and one that is not; return its segment and where the last block begins."""
    with open_spool(folder, INTEREST) as spool:
        spool.append(rows(0, 1), "p1")
        spool.append(rows(2), "p2")
        spool.sync()
        (segment,) = segments_in(folder)
        begins = segment.stat().st_size
        spool.append(rows(3, 4), "p3")
        spool._file.flush()
        shutil.copytree(folder, folder.parent / "crashed")
    return segments_in(folder.parent / "crashed")[0], begins


def test_a_torn_tail_is_cut_off_wherever_it_is_torn(tmp_path: Path):
    segment, begins = torn(tmp_path / "spool")
    whole = segment.read_bytes()
    for length in range(begins, len(whole) + 1):
        segment.write_bytes(whole[:length])
        with open_spool(segment.parent, INTEREST) as spool:
            is_whole = length == len(whole)
            assert (spool.end_offset, spool.resume_point) == ((5, "p3") if is_whole else (3, "p2"))
            assert spool.cut_bytes == (0 if is_whole else length - begins)
            assert segment.stat().st_size == (length if is_whole else begins)
        (segment.parent / "end").unlink()


@pytest.mark.parametrize("at", ["magic", "checksum", "offset", "count", "lengths", "rows"])
def test_a_tail_with_a_wrong_byte_is_cut_off(tmp_path: Path, at: str):
    segment, begins = torn(tmp_path / "spool")
    content = bytearray(segment.read_bytes())
    place = {"magic": 0, "checksum": 5, "offset": 9, "count": 17, "lengths": 21, "rows": 150}[at]
    content[begins + place] ^= 1
    segment.write_bytes(content)
    with open_spool(segment.parent, INTEREST) as spool:
        assert (spool.end_offset, spool.resume_point) == (3, "p2")
        spool.append(rows(3), "p3")
    assert numbers_in(segment.parent) == [0, 1, 2, 3]


@pytest.mark.parametrize("left", [b"", bytes(28), b"half"])
def test_an_end_that_a_machine_lost_is_found_again_by_the_writer(tmp_path: Path, left: bytes):
    segment, _ = torn(tmp_path / "spool")
    (segment.parent / "end").write_bytes(left)
    with pytest.raises(DamagedData, match="start its writer again"):
        numbers_in(segment.parent)
    with open_spool(segment.parent, INTEREST) as spool:
        assert (spool.end_offset, spool.resume_point) == (5, "p3")
    assert numbers_in(segment.parent) == [0, 1, 2, 3, 4]


def test_what_was_acknowledged_and_is_damaged_is_neither_served_nor_dropped(tmp_path: Path):
    segment, _ = torn(tmp_path / "spool")
    content = bytearray(segment.read_bytes())
    content[60] ^= 1
    segment.write_bytes(content)
    with pytest.raises(DamagedData, match="expected a complete block at byte 0 of"):
        numbers_in(segment.parent)
    with pytest.raises(DamagedData, match=r"expected the 3 rows that .* has acknowledged, got 0"):
        open_spool(segment.parent, INTEREST).__enter__()
    assert segment.read_bytes() == bytes(content)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=12),
    segment_bytes=st.integers(1, 4000),
    tear=st.floats(0.0, 1.0),
)
def test_after_any_crash_there_is_all_that_was_synced_and_nothing_torn(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]], segment_bytes: int, tear: float
):
    folder = tmp_path_factory.mktemp("spool")
    crashed = folder.with_name(f"{folder.name}-crashed")
    written = synced = 0
    with open_spool(folder, INTEREST, segment_bytes=segment_bytes) as spool:
        for count, is_synced in steps:
            spool.append(rows(*range(written, written + count)), f"p{written + count}")
            written += count
            if is_synced:
                spool.sync()
            synced = SpoolReader(folder).end_offset
        spool._file.flush()
        shutil.copytree(folder, crashed)
    if synced < written:
        # Some of what was not synced reached the disk.
        torn_segment = segments_in(crashed)[-1]
        size = torn_segment.stat().st_size
        durable = _durable_bytes(crashed)
        keep = durable + int((size - durable) * tear)
        torn_segment.write_bytes(torn_segment.read_bytes()[:keep])
    with open_spool(crashed, INTEREST, segment_bytes=segment_bytes) as spool:
        end = spool.end_offset
        assert synced <= end <= written
        assert spool.resume_point == f"p{end}" or end == 0
    assert numbers_in(crashed) == list(range(end))


def _durable_bytes(folder: Path) -> int:
    """Return how much of the last segment readers may see."""
    end, last = _read_end(folder), segments_in(folder)[-1]
    assert end is not None
    return end.at if end.segment == first_offset_of(last) else 0


# Consumers and retention.


def fill(folder: Path, segments: int, **options: object) -> None:
    with open_spool(folder, INTEREST, segment_bytes=1, **options) as spool:
        for n in range(segments):
            spool.append(rows(n), f"p{n}")


def test_segments_go_when_all_consumers_have_committed(tmp_path: Path):
    fill(tmp_path, 5)
    consumers = SpoolReader(tmp_path).consumers
    consumers.commit("one", 4)
    consumers.commit("two", 2)
    with open_spool(tmp_path, INTEREST) as spool:
        assert SpoolReader(tmp_path).first_offset == 2, "they are removed when it is opened"
        assert numbers_in(tmp_path) == [2, 3, 4]
        consumers.remove("two")
        assert consumers.names() == ["one"]
        assert spool.trim() == 2
    consumers.commit("one", 1)
    assert consumers.committed("one") == 4


def test_without_consumers_everything_stays_until_retention_ends(tmp_path: Path):
    fill(tmp_path, 4)
    size = segments_in(tmp_path)[0].stat().st_size
    with open_spool(tmp_path, INTEREST) as spool:
        assert spool.trim() == 0
    with open_spool(tmp_path, INTEREST, Retention(bytes=3 * size + 1)):
        assert SpoolReader(tmp_path).first_offset == 1
    with open_spool(tmp_path, INTEREST, Retention(hours=1.0)) as spool:
        now_s = segments_in(tmp_path)[0].stat().st_mtime
        assert spool.trim(now_s + 3000.0) == 0
        assert spool.trim(now_s + 4000.0) == 3
    with open_spool(tmp_path, INTEREST) as spool:
        assert (spool.end_offset, spool.resume_point, numbers_in(tmp_path)) == (4, "p3", [])


def test_few_rows_are_removed_in_time_too(tmp_path: Path):
    now_s = time.time()
    late = to_batch([(1, Gap(Cause.NEW_SESSION))], now_s * 1000.0)
    with open_spool(tmp_path, INTEREST, Retention(hours=10.0)) as spool:
        spool.append(rows(), "begin")
        spool.append(late, "p1")
        spool.sync()
        assert spool.tidy(now_s + 3000.0) == 0
        assert len(segments_in(tmp_path)) == 1
        assert spool.tidy(now_s + 4000.0) == 0
        assert len(segments_in(tmp_path)) == 2, "a segment covers a tenth of the time"
        assert spool.tidy(now_s + 8000.0) == 0
        assert len(segments_in(tmp_path)) == 2, "one without rows has no age"
    with open_spool(tmp_path, INTEREST, Retention(hours=10.0)) as spool:
        assert (spool.end_offset, spool.resume_point) == (1, "p1")
        assert spool.tidy(now_s + 37_000.0) == 1
        spool.append(rows(1), "p2")
    with open_spool(tmp_path, INTEREST) as spool:
        assert (spool.end_offset, spool.resume_point) == (2, "p2")
    assert numbers_in(tmp_path) == [1]


def test_opening_a_spool_does_not_make_its_rows_younger(tmp_path: Path):
    fill(tmp_path, 1)
    (segment,) = segments_in(tmp_path)
    os.utime(segment, (1000.0, 1000.0))
    with open_spool(tmp_path, INTEREST):
        assert segment.stat().st_mtime == 1000.0


def test_a_segment_that_only_has_a_resume_point_is_not_begun_again(tmp_path: Path):
    for point in ("begin", "again"):
        with open_spool(tmp_path, INTEREST, segment_bytes=1) as spool:
            spool.append(rows(), point)
    with open_spool(tmp_path, INTEREST, segment_bytes=1) as spool:
        assert (spool.resume_point, spool.cut_bytes) == ("again", 0)
        spool.append(rows(0), "p1")
    assert len(segments_in(tmp_path)) == 1
    assert numbers_in(tmp_path) == [0]


def test_a_segment_that_was_just_begun_does_not_cost_the_resume_point(tmp_path: Path):
    fill(tmp_path, 2)
    SpoolReader(tmp_path).consumers.commit("one", 2)
    with open_spool(tmp_path, INTEREST, segment_bytes=1) as spool:
        spool._begin_segment()
        assert spool.trim() == 0
    with open_spool(tmp_path, INTEREST) as spool:
        assert (spool.end_offset, spool.resume_point) == (2, "p1")


def test_readers_may_commit_under_one_name_at_the_same_time(tmp_path: Path):
    fill(tmp_path, 1)

    def commit(reader: int) -> None:
        consumers = SpoolReader(tmp_path).consumers
        for offset in range(reader, 200, 8):
            consumers.commit("one", offset)
            assert (consumers.committed("one") or 0) >= offset, "it never moves back"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(commit, range(8)))
    assert SpoolReader(tmp_path).consumers.committed("one") == 199
    assert SpoolReader(tmp_path).consumers.names() == ["one"]


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101])
def test_names_of_consumers_are_plain(tmp_path: Path, name: str):
    fill(tmp_path, 1)
    with pytest.raises(UsageError, match="expected a consumer name"):
        SpoolReader(tmp_path).consumers.commit(name, 1)
