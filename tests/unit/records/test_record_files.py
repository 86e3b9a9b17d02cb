"""Files and folders that survive a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octopia.records.archive import Archive
from octopia.records.files import make_folder
from octopia.records.outgoing import Outgoing
from octopia.records.spool import SpoolReader
from records_samples import INTEREST, add_to_spool, numbered, received


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The folders whose names of files are durable."""
    found: set[Path] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        real(descriptor)
        found.add(path)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_every_new_folder_is_durable(tmp_path: Path, synced: set[Path]):
    make_folder(tmp_path / "one" / "two" / "three")
    assert synced == {tmp_path, tmp_path / "one", tmp_path / "one" / "two"}
    synced.clear()
    make_folder(tmp_path / "one" / "two" / "three")
    assert synced == set()


@pytest.mark.parametrize("kind", ["spool", "archive", "outbox"])
def test_new_records_are_durable_with_their_folders(tmp_path: Path, synced: set[Path], kind: str):
    folder = tmp_path / "records" / kind
    if kind == "spool":
        add_to_spool(folder, numbered(received(0)))
        SpoolReader(folder).consumers.commit("report", 1)
    elif kind == "archive":
        with Archive(folder, INTEREST):
            pass
    else:
        Outgoing(folder)
    parents = {each.parent for each in tmp_path.rglob("*") if each.is_dir()}
    assert parents <= synced
