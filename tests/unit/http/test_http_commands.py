"""Commands of a page: checked completely, and sent to the right brokers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from octopia.errors import BadRequest, OctopiaError, RequestRefused
from octopia.http.commands import Cut, Lift, Route, Throttle, carry_out, parse, ref_of
from octopia.protocol import Command, Verb
from octopia.settings import Algorithm


def text(**fields: Any) -> str:
    return json.dumps({"type": "do", "ref": 1, **fields})


class FakeSource:
    """Brokers that note what they are asked; those in ``refusing`` refuse."""

    def __init__(self, *brokers: str, refusing: tuple[str, ...] = ()):
        self.brokers = brokers
        self.refusing = refusing
        self.asked: list[tuple[str, Command]] = []

    async def ask(self, broker: str, command: Command) -> dict[str, Any]:
        self.asked.append((broker, command))
        if broker in self.refusing:
            raise RequestRefused("no")
        return {}


def test_commands_are_parsed() -> None:
    assert parse(text(verb="throttle", link="b.3>b.0", rate=50)) == Throttle("do", 1, "b.3>b.0", 50.0)
    assert parse(text(verb="lift", link="b.3>b.0")) == Lift("do", 1, "b.3>b.0")
    assert parse(text(verb="route", algorithm="static")) == Route("do", 1, Algorithm.STATIC)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 3000,
        '{"type": "do"}',
        text(verb="explode"),
        text(verb="throttle", link="b.3>b.0"),
        text(verb="throttle", link="b.3>b.0", rate=0),
        text(verb="throttle", link="b.3>b.0", rate=-1),
        text(verb="throttle", link="b.3>b.0", rate=1e300),
        text(verb="throttle", link="b.3>b.0", rate="fast"),
        text(verb="throttle", link=["b.3", "b.0"], rate=5),
        text(verb="cut", link="b.3>b.0", more=1),
        text(verb="route", algorithm="best"),
        json.dumps({"type": "tick", "ref": 1, "verb": "cut", "link": "b.3>b.0"}),
        json.dumps({"type": "do", "ref": -1, "verb": "cut", "link": "b.3>b.0"}),
        json.dumps({"type": "do", "ref": None, "verb": "cut", "link": "b.3>b.0"}),
    ],
)
def test_anything_else_is_refused(bad: str) -> None:
    with pytest.raises(BadRequest, match="expected"):
        parse(bad)
    assert ref_of(bad) in (1, -1, None)


def test_a_throttle_is_for_one_end_and_a_cut_for_both() -> None:
    source = FakeSource("b.3", "b.0")
    asyncio.run(carry_out(Throttle("do", 1, "b.3>b.0", 50.0), source))  # type: ignore[arg-type]
    asyncio.run(carry_out(Lift("do", 1, "b.3>b.0"), source))  # type: ignore[arg-type]
    assert source.asked == [
        ("b.3", Command(Verb.THROTTLE, "b.0", rate=50.0)),
        ("b.3", Command(Verb.THROTTLE, "b.0", rate=0.0)),
    ]
    source.asked.clear()
    asyncio.run(carry_out(Cut("do", 1, "b.3>b.0"), source))  # type: ignore[arg-type]
    assert source.asked == [("b.3", Command(Verb.CUT, "b.0")), ("b.0", Command(Verb.CUT, "b.3"))]


def test_a_cut_needs_one_end_that_can_be_asked() -> None:
    asyncio.run(carry_out(Cut("do", 1, "b.3>b.0"), FakeSource("b.0")))  # type: ignore[arg-type]
    asyncio.run(carry_out(Cut("do", 1, "b.3>b.0"), FakeSource("b.0", "b.3", refusing=("b.3",))))  # type: ignore[arg-type]
    for source in (FakeSource("c.0"), FakeSource("b.0", refusing=("b.0",))):
        with pytest.raises(OctopiaError):
            asyncio.run(carry_out(Cut("do", 1, "b.3>b.0"), source))  # type: ignore[arg-type]


@pytest.mark.parametrize("link", ["", "b.3", ">", "b.3>", "x" * 100])
def test_a_link_that_does_not_exist_is_refused(link: str) -> None:
    with pytest.raises(OctopiaError, match="expected"):
        asyncio.run(carry_out(Throttle("do", 1, link, 5.0), FakeSource("b.0")))  # type: ignore[arg-type]
