"""Descriptions of files: a file that is left out has no row of the answer, and files that can be left out are."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.content import Publication, conforms, format_filter, matches, normalise, parse_filter
from octopia.errors import InvalidFilter
from octopia.protocol import Cause
from octopia.protocol.messages import Gap
from octopia.records.archive import read_commits
from octopia.records.contents import ATTRIBUTES_MAX, describe, may_match
from octopia.records.history import Records
from octopia.records.selection import Question
from property.content_strategies import expressions, predicates, publications
from records_samples import MORNING_MS, add_to_archive, found_in, numbered, numbers_of, received


def described(*contents: dict[str, object]) -> str:
    return describe([None, *map(msgspec.msgpack.encode, contents)])


@given(st.lists(publications(), min_size=1, max_size=20), expressions(predicates()))
def test_what_is_described_conforms_and_no_match_is_left_out(contents: list[Publication], expression: object):
    text = described(*(dict(each.attributes) for each in contents))
    if text:
        assert all(conforms(parse_filter(text), each) for each in contents)
    try:
        interest = normalise(expression)
    except InvalidFilter:
        return
    if any(matches(interest, each) for each in contents):
        assert may_match(text, interest)


def test_ranges_few_values_and_mixed_types():
    few = described({"symbol": "IBM", "price": 7}, {"symbol": "SAP", "price": 1.5, "late": True})
    assert few == "late IS NOT NULL AND price BETWEEN 1.5 AND 7 AND symbol IN ('IBM', 'SAP')"
    many = described(*({"symbol": f"S{n:02}", "x": n if n else "none"} for n in range(20)))
    assert many == "symbol BETWEEN 'S00' AND 'S19' AND x IS NOT NULL"
    assert described({"text": "long" * 20}) == "text IS NOT NULL"
    assert described() == described({f"a{n}": n for n in range(ATTRIBUTES_MAX + 1)}) == ""


ROWS = [{"n": n, "symbol": "IBM" if n < 10 else "SAP", "price": float(n)} for n in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An archive of two files, of which the second has a gap."""
    for rows, gaps in ((range(10), []), (range(10, 20), [(30, Gap(Cause.NEW_SESSION, 0))])):
        add_to_archive(tmp_path, [*numbered(*(received(n, ROWS[n]) for n in rows)), *gaps])
    return tmp_path


@pytest.mark.parametrize(
    ("interest", "files", "files_without_notices"),
    [
        ("symbol = 'IBM'", 2, 1),
        ("symbol = 'SAP' AND price > 3", 1, 1),
        ("price < 5 OR n = 7", 2, 1),
        ("volume > 0", 1, 0),
        ("volume IS NULL", 2, 2),
        ("NOT symbol = 'IBM'", 1, 1),
    ],
)
def test_files_that_no_row_of_the_answer_is_in_are_not_read(
    folder: Path, interest: str, files: int, files_without_notices: int
):
    expected = [n for n in range(20) if matches(parse_filter(interest), Publication(ROWS[n]))]
    for has_notices, count in ((True, files), (False, files_without_notices)):
        question = Question(interest, has_notices=has_notices)
        assert sum(len(names) for part in Records(folder).slices(question) for names in part.commits) == count
        found = found_in(folder, question)
        assert numbers_of(found) == expected
        assert len(found) - len(expected) == has_notices


def test_files_without_a_description_are_read(folder: Path):
    """An archive of an earlier version has none."""
    for path in (folder / "commits").iterdir():
        commit = msgspec.json.decode(path.read_bytes())
        for each in commit["files"]:
            del each["contents"], each["notices"]
        path.write_bytes(msgspec.json.encode(commit))
    assert [each.contents for commit in read_commits(folder) for each in commit.files] == ["", ""]
    question = Question("volume > 0", from_ms=MORNING_MS, has_notices=False)
    assert sum(len(names) for part in Records(folder).slices(question) for names in part.commits) == 2
    assert numbers_of(found_in(folder, Question(format_filter(parse_filter("price >= 18"))))) == [18, 19]
