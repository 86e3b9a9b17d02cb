"""``octopia consumers``: what keeps rows on disk, and how it is removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.errors import InvalidData, UsageError
from octopia.records.archive import spool_of
from octopia.records.spool import SpoolReader, open_spool
from records_samples import INTEREST, add_to_archive, add_to_spool, numbered, received


def consumers(*words: str) -> str:
    result = CliRunner().invoke(app, ["consumers", *words])
    if isinstance(result.exception, UsageError | InvalidData):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    add_to_spool(tmp_path, numbered(*map(received, range(5))), block=1, segment_bytes=1)
    SpoolReader(tmp_path).consumers.commit("dead", 1)
    SpoolReader(tmp_path).consumers.commit("report", 4)
    return tmp_path


def test_a_dead_consumer_is_found_and_removed_and_its_rows_go(spool: Path):
    assert consumers(str(spool)) == "dead: committed 1, waiting 4\nreport: committed 4, waiting 1\n"
    assert json.loads(consumers(str(spool), "--json"))[1] == {"name": "report", "committed": 4, "waiting": 1}
    assert consumers(str(spool), "--remove", "dead") == "report: committed 4, waiting 1\n"
    with open_spool(spool, INTEREST) as writer:
        writer.trim()
    assert SpoolReader(spool).first_offset == 4
    assert "no consumers" in consumers(str(spool), "--remove", "report")


def test_wrong_names_and_folders_are_refused(spool: Path):
    with pytest.raises(UsageError, match=r"expected a consumer of .* \(known: dead, report\), got 'other'"):
        consumers(str(spool), "--remove", "other")
    with pytest.raises(InvalidData, match="expected a spool, got"):
        consumers(str(spool / "nowhere"))


@pytest.mark.parametrize("part", ["archive", "spool"])
def test_the_consumer_of_an_archive_stays(tmp_path: Path, part: str):
    add_to_archive(tmp_path, numbered(received(0)))
    folder = tmp_path if part == "archive" else spool_of(tmp_path)
    assert consumers(str(folder)) == "archive: committed 1, waiting 0\n"
    with pytest.raises(UsageError, match=r"expected a consumer other than 'archive', with which the archive in"):
        consumers(str(folder), "--remove", "archive")
    assert SpoolReader(spool_of(tmp_path)).consumers.names() == ["archive"]
