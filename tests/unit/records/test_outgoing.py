"""Outgoing rows: only committed ones exist, in order, each batch once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from octopia.content import Publication
from octopia.errors import DamagedData, UsageError
from octopia.records.outgoing import Outgoing, StagedFile


def stage(outgoing: Outgoing, stream: str, *numbers: int) -> StagedFile:
    return outgoing.stage(stream, [Publication({"n": n}, bytes([n])) for n in numbers])


def numbers_in(outgoing: Outgoing, start: int = 0) -> list[int]:
    batches = [batch for each in outgoing.manifests() for batch in outgoing.read(each, start)]
    return [payload[0] for batch in batches for payload in batch.column("payload").to_pylist()]


def staged(outgoing: Outgoing) -> list[str]:
    return sorted(each.name for each in (outgoing.folder / "staged").iterdir())


def test_rows_exist_when_they_are_committed_and_in_the_order_of_tasks(tmp_path: Path):
    outgoing = Outgoing(tmp_path)
    second, first = stage(outgoing, "s", 2, 3), stage(outgoing, "s", 0, 1)
    assert numbers_in(outgoing) == []
    assert outgoing.commit("s", 0, [first, stage(outgoing, "s"), second])
    assert numbers_in(outgoing) == [0, 1, 2, 3]
    assert numbers_in(outgoing, 1) == [1, 2, 3]
    assert numbers_in(outgoing, 3) == [3]
    assert numbers_in(Outgoing(tmp_path), 4) == []
    assert Outgoing(tmp_path).producer == outgoing.producer


def test_a_failed_attempt_and_a_repeated_batch_add_nothing(tmp_path: Path):
    outgoing = Outgoing(tmp_path)
    stage(outgoing, "s", 9)  # An attempt that failed after staging.
    assert outgoing.commit("s", 0, [stage(outgoing, "s", 0)])
    assert outgoing.commit("s", 1, [stage(outgoing, "s", 1)])
    other = stage(outgoing, "other", 7)
    assert not outgoing.commit("s", 1, [stage(outgoing, "s", 1)])
    assert outgoing.commit("other", 0, [other])
    assert outgoing.commit("s", 2, [])
    assert outgoing.commit("s", 3, [stage(outgoing, "s", 2)])
    assert numbers_in(outgoing) == [0, 1, 7, 2]
    assert len(staged(outgoing)) == 4
    with pytest.raises(UsageError, match=r"expected the batch 3 of the stream s or a later one, got 0"):
        outgoing.commit("s", 0, [stage(outgoing, "s", 0)])
    outgoing.abandon("s")
    assert len(staged(outgoing)) == 4


def test_an_attempt_that_fails_while_it_stages_leaves_no_file(tmp_path: Path):
    def rows() -> Iterator[Publication]:
        yield Publication({"n": 1})
        raise OSError("the machine is on fire")

    with pytest.raises(OSError, match="on fire"):
        Outgoing(tmp_path).stage("s", rows())
    assert staged(Outgoing(tmp_path)) == []


def test_what_is_published_is_removed_and_numbers_go_on(tmp_path: Path):
    outgoing = Outgoing(tmp_path)
    for batch in range(3):
        outgoing.commit("s", batch, [stage(outgoing, "s", batch, batch)])
    outgoing.forget(3)
    assert [(each.first, each.end) for each in outgoing.manifests()] == [(2, 4), (4, 6)]
    outgoing.forget(6)
    assert staged(outgoing) == []
    assert [(each.first, each.end) for each in outgoing.manifests()] == [(4, 6)]
    assert not outgoing.commit("s", 2, [stage(outgoing, "s", 2)])
    assert outgoing.commit("s", 3, [stage(outgoing, "s", 3)])
    assert numbers_in(outgoing, 6) == [3]


def test_old_files_of_no_batch_are_removed(tmp_path: Path):
    outgoing = Outgoing(tmp_path)
    orphan, kept = stage(outgoing, "a", 1), stage(outgoing, "b", 2)
    outgoing.commit("b", 0, [kept])
    assert outgoing.remove_orphans() == 0
    os.utime(tmp_path / "staged" / orphan.name, (1.0, 1.0))
    os.utime(tmp_path / "staged" / kept.name, (1.0, 1.0))
    assert outgoing.remove_orphans() == 1
    assert staged(outgoing) == [kept.name]


def test_a_file_that_vanishes_while_orphans_are_removed_does_not_matter(tmp_path: Path):
    outgoing = Outgoing(tmp_path)
    (tmp_path / "staged" / "s-0.arrow").symlink_to(tmp_path / "nowhere")
    assert outgoing.commit("s", 0, [stage(outgoing, "s", 1)])
    assert numbers_in(outgoing, 0) == [1]


def test_damage_and_wrong_names_are_told(tmp_path: Path):
    outgoing = Outgoing(tmp_path)
    with pytest.raises(UsageError, match="expected a stream name"):
        stage(outgoing, "a/b", 1)
    one = stage(outgoing, "s", 1, 2)
    outgoing.commit("s", 0, [one])
    path = tmp_path / "staged" / one.name
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DamagedData, match=r"expected 2 rows in .*, got"):
        numbers_in(outgoing)
