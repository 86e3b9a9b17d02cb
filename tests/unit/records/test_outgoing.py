"""Outgoing rows: only committed ones exist, in order, each batch once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from octopia.content import Publication
from octopia.errors import DamagedData, UsageError
from octopia.records import outgoing as outgoing_module
from octopia.records.outgoing import Manifest, Outgoing, StagedFile


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


def test_a_batch_whose_files_are_not_here_is_not_committed(tmp_path: Path):
    here, elsewhere = Outgoing(tmp_path / "here"), Outgoing(tmp_path / "elsewhere")
    files = [stage(here, "s", 0), stage(elsewhere, "s", 1)]
    with pytest.raises(UsageError, match=r"expected 2 staged files in .*, got 1, without s-.*: all workers must"):
        here.commit("s", 0, files)
    assert here.manifests() == []
    # Two queries with one name: the batch of one removes the files that the other has staged.
    first, second = stage(here, "s", 2), stage(here, "s", 3)
    assert here.commit("s", 0, [first])
    with pytest.raises(UsageError, match=r"got 0, without s-.*: .* each query needs its own name"):
        here.commit("s", 1, [second])
    assert here.commit("s", 1, [StagedFile("s-empty.arrow", 0)])
    assert numbers_in(here) == [2]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of manifests, as often as they are read from now on."""
    names: list[str] = []

    def read(path: Path) -> Manifest | None:
        names.append(path.name)
        return read_manifest(path)

    read_manifest = outgoing_module._read_manifest
    monkeypatch.setattr(outgoing_module, "_read_manifest", read)
    return names


def test_a_commit_reads_few_manifests_and_a_poll_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outgoing_module, "_MANIFESTS_READ", 5)
    outgoing = Outgoing(tmp_path)
    for batch in range(20):
        outgoing.commit("s", batch, [stage(outgoing, "s", batch)])
    names = counted(monkeypatch)
    # A job has a name of its own, so no other batch can have its files.
    assert outgoing.commit("job.1", None, [stage(outgoing, "job.1", 20)])
    assert names == [f"{19:020d}.json", f"{20:020d}.json"]
    names.clear()
    orphan = stage(outgoing, "s", 9)
    assert outgoing.commit("s", 20, [stage(outgoing, "s", 21)])
    assert len(names) == 1 + 5
    assert orphan.name in staged(outgoing)  # Too many batches wait to be sure.
    names.clear()
    assert not outgoing.has_batch_from(22)
    assert outgoing.has_batch_from(21)
    assert names == []
    assert [each.first for each in outgoing.manifests(19)] == [19, 20, 21]
    assert len(names) == 3
    outgoing.forget(20)
    assert outgoing.commit("s", 21, [stage(outgoing, "s", 22)])
    assert orphan.name not in staged(outgoing)
    assert numbers_in(outgoing, 20) == [20, 21, 22]


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
