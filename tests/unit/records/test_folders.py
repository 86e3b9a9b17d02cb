"""Folders: paths and URIs of files are taken, those of other file systems are refused and create nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.errors import UsageError
from octopia.records.folders import local_folder
from records_samples import add_to_spool, numbered, received


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("out/all", "out/all"),
        ("/out", "/out"),
        ("a:b", "a:b"),
        ("file:/out", "/out"),
        ("file:///out/all", "/out/all"),
        ("FILE:///out", "/out"),
    ],
)
def test_paths_and_uris_of_files(place: str, folder: str):
    assert local_folder(place) == local_folder(Path(place)) == Path(folder)


@pytest.mark.parametrize("place", ["s3a://bucket/out", "hdfs://machine:8020/out", "dbfs:/out", "file://machine/out"])
def test_other_uris_are_refused(place: str):
    with pytest.raises(UsageError, match=r"expected a local folder, got \w+://(bucket|machine(:8020)?|out)"):
        local_folder(place)


@pytest.mark.parametrize(
    "words",
    [
        ["spool", "n > 0", "--dir", "s3a://bucket/out"],
        ["archive", "n > 0", "--to", "s3a://bucket/out"],
        ["outbox", "s3a://bucket/out"],
        ["history", "n > 0", "--archive", "s3a://bucket/out"],
        ["replay", "s3a://bucket/out"],
    ],
    ids=lambda words: words[0],
)
def test_commands_create_no_folder_for_a_uri(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, words).exception
    assert isinstance(error, UsageError)
    assert str(error).startswith("expected a local folder, got s3a://bucket/out: ")
    assert list(tmp_path.iterdir()) == []


def test_a_command_takes_the_uri_of_a_file(tmp_path: Path):
    add_to_spool(tmp_path, numbered(received(1)))
    done = CliRunner().invoke(app, ["history", "n > 0", "--archive", f"file://{tmp_path}"])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("\n") == 1
