"""Operators that stay connected: no answer is taken for that of another command."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from octopia.addresses import Address
from octopia.errors import RequestRefused, Unavailable
from octopia.http import operators
from octopia.http.operators import StayingOperator
from octopia.protocol import Command, Verb


class FakeOperator:
    """A connection whose commands are answered by a test."""

    made: list[FakeOperator]

    def __init__(self, address: Address, credentials: object = None) -> None:
        self.is_open = True
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.made.append(self)

    async def open(self) -> None:
        pass

    async def ask(self, command: Command) -> list[dict[str, Any]]:
        return [await asyncio.shield(self.answer)]

    def drop(self) -> None:
        self.is_open = False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeOperator]:
    FakeOperator.made = []
    monkeypatch.setattr(operators, "Operator", FakeOperator)
    return FakeOperator.made


def test_a_connection_is_not_used_again_after_its_command_was_cancelled(made: list[FakeOperator]) -> None:
    async def scenario() -> None:
        operator = StayingOperator(Address("127.0.0.1", 1))
        asking = asyncio.ensure_future(operator.ask(Command(Verb.CIVS)))
        while not made:
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not made[0].is_open
        reporting = asyncio.ensure_future(operator.ask(Command(Verb.REPORT)))
        while len(made) < 2:
            await asyncio.sleep(0)
        made[1].answer.set_result({"id": "a.0"})
        assert await reporting == {"id": "a.0"}

    asyncio.run(scenario())


def test_a_command_that_waits_for_its_turn_too_long_does_not_disturb_the_one_before(made: list[FakeOperator]) -> None:
    async def scenario() -> None:
        operator = StayingOperator(Address("127.0.0.1", 1))
        first = asyncio.ensure_future(operator.ask(Command(Verb.CIVS)))
        while not made:
            await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="does not answer"):
            await operator.ask(Command(Verb.REPORT), timeout_s=0.01)
        assert made[0].is_open
        made[0].answer.set_result({"civs": []})
        assert await first == {"civs": []}

    asyncio.run(scenario())


def test_a_refused_command_keeps_the_connection(made: list[FakeOperator]) -> None:
    async def scenario() -> None:
        operator = StayingOperator(Address("127.0.0.1", 1))
        asking = asyncio.ensure_future(operator.ask(Command(Verb.ROUTE)))
        while not made:
            await asyncio.sleep(0)
        made[0].answer.set_exception(RequestRefused("expected an algorithm, got none"))
        with pytest.raises(RequestRefused):
            await asking
        assert made[0].is_open

    asyncio.run(scenario())
