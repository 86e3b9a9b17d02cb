"""Every example of docs/filter-language.md."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from octopia.content import TextForm, format_expression, parse_expression, parse_filter
from octopia.content import limits as content_limits

PAGE = (Path(__file__).parents[3] / "docs" / "filter-language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def lines_of(language: str) -> list[str]:
    return [line for kind, block in BLOCKS if kind == language for line in block.splitlines() if line]


def test_the_page_has_no_block_that_is_not_checked() -> None:
    assert sorted({kind for kind, _ in BLOCKS}) == ["pycon", "sql", "tuples"]
    assert PAGE.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("text", lines_of("sql"))
def test_sql_examples_parse_and_read_back(text: str) -> None:
    assert parse_filter(text).filters
    assert parse_expression(format_expression(parse_expression(text))) == parse_expression(text)


@pytest.mark.parametrize("text", lines_of("tuples"))
def test_tuple_examples_parse_and_print_as_they_are(text: str) -> None:
    assert format_expression(parse_expression(text), TextForm.TUPLES) == text


def test_python_examples_give_what_the_page_says() -> None:
    session = "\n".join(block for kind, block in BLOCKS if kind == "pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, "filter-language.md", None, 0)
    assert len(test.examples) > 20
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert results.failed == 0, "".join(report)


@pytest.mark.parametrize("text", re.findall(r"^\| ([^|]*`x [^|]*) \|", PAGE, re.MULTILINE))
def test_conditions_in_tables_parse(text: str) -> None:
    for condition in re.findall(r"`([^`]+)`", text):
        parse_filter(condition)


def test_the_limits_are_those_of_the_code() -> None:
    table = PAGE[PAGE.index("| limit |") : PAGE.index("### The cost of a match")]
    stated = [int(number) for number in re.findall(r"\d+", table.replace("UTF-8", ""))]
    assert stated == [
        content_limits.FILTER_TEXT_BYTES_MAX,
        content_limits.FILTER_TOKENS_MAX,
        content_limits.FILTER_DEPTH_MAX,
        content_limits.FILTER_DEPTH_MAX,
        content_limits.DISJUNCTION_FILTERS_MAX,
        content_limits.FILTER_PREDICATES_MAX,
        content_limits.FILTER_LENGTH_MAX,
        content_limits.OPERAND_LENGTH_MAX,
        content_limits.OPERAND_VALUES_MAX,
        content_limits.PATTERN_LENGTH_MAX,
        content_limits.FILTER_COST_US_MAX,
        content_limits.PUBLICATION_ATTRIBUTES_MAX,
        content_limits.NAME_LENGTH_MAX,
        content_limits.STRING_LENGTH_MAX,
        content_limits.PUBLICATION_PAYLOAD_BYTES_MAX >> 20,
    ]
