"""The reason why a publication conforms to no advertisement."""

from __future__ import annotations

import pytest

from octopia.content import Disjunction, parse_filter
from octopia.content.nonconformance import COMPARED_MAX, explain_nonconformance
from support import pub

NONE = "it conforms to none of its publisher's advertisements"
LEAVE = ": leave it out, or advertise what you publish"
CHANGE = ": change the value, or advertise what you publish"


def explain(*texts: str, **attributes: object) -> str:
    return explain_nonconformance(map(parse_filter, texts), pub(**attributes))


@pytest.mark.parametrize(
    ("texts", "attributes", "why"),
    [
        ([], {"x": 1}, ": there are none; advertise before you publish"),
        (["x > 0"], {"x": -1}, "; the closest is (x > 0), which excludes x = -1" + CHANGE),
        (
            ["x > 0"],
            {"x": "1"},
            "; the closest is (x > 0), which excludes x = '1' (expected a number, got a string)" + CHANGE,
        ),
        (
            ["x IN (1, TRUE)"],
            {"x": "1"},
            "; the closest is (x IN (1, TRUE)), which excludes x = '1' "
            "(expected a number or a boolean, got a string)" + CHANGE,
        ),
        (["x > 0"], {"x": 1, "y": 1}, "; the closest is (x > 0), which does not declare y" + LEAVE),
        (["x IS NULL"], {"x": 1}, "; the closest is (x IS NULL), which excludes x = 1" + CHANGE),
        (["TRUE"], {"x": 1}, "; the closest is (TRUE), which does not declare x" + LEAVE),
        (["FALSE"], {"x": 1}, ": they are all FALSE"),
        (
            ["x > 0"],
            {"x": -1, "a": 1, "b": 1, "select": True, "y": 2},
            "; the closest is (x > 0), which does not declare a, b, select and 1 more and excludes x = -1: "
            "leave them out and change the value, or advertise what you publish",
        ),
    ],
)
def test_it_says_which_attribute_fails(texts: list[str], attributes: dict[str, object], why: str):
    assert explain(*texts, **attributes) == NONE + why


def test_the_closest_of_several_is_named():
    texts = ["x > 0 AND y > 0", "y < 0 OR (x > 5 AND y > 5 AND z > 5)", "w > 0"]
    assert explain(*texts, x=6, y=6, z=1) == (
        f"{NONE}; the closest is (x > 0 AND y > 0), which does not declare z{LEAVE}"
    )
    assert explain(*reversed(texts), x=6, y=6, z=1) == (
        f"{NONE}; the closest is (x > 5 AND y > 5 AND z > 5), which excludes z = 1{CHANGE}"
    )


def test_its_length_is_bounded():
    conditions = " AND ".join(f"{'long' * 20}{number} = '{'value' * 10}'" for number in range(20))
    attributes: dict[str, object] = {f"{'long' * 20}{number}": "other" * 1000 for number in range(20)}
    attributes |= {f"{'different' * 20}{number}": 1 for number in range(20)}
    assert len(explain(conditions, **attributes)) < 720


def test_the_number_of_compared_advertisements_is_bounded():
    def offers() -> object:
        for _ in range(COMPARED_MAX):
            yield parse_filter("x > 0")
        raise AssertionError("one more was asked for")

    assert explain_nonconformance(offers(), pub(y=1)).endswith("which does not declare y" + LEAVE)


def test_an_infinity_is_shown():
    assert "excludes x = inf" in explain_nonconformance([Disjunction.parse("x < 0")], pub(x=float("inf")))
