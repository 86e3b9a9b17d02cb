"""Operators that stay connected: a connection to one broker, for one command after another."""

from __future__ import annotations

import asyncio
from typing import Any

from octopia.addresses import Address
from octopia.client.credentials import Credentials
from octopia.client.operators import ANSWER_S, Operator
from octopia.errors import RequestRefused, Unavailable
from octopia.http.snapshot import NOT_RUNNING
from octopia.protocol import Command


class StayingOperator:
    """A connection to one broker, which is opened when it is needed, and again after it was lost."""

    def __init__(self, address: Address, credentials: Credentials | None = None):
        self._address = address
        self._credentials = credentials
        self._operator: Operator | None = None
        self._turn = asyncio.Lock()

    async def ask(self, command: Command, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """Send a command and return the report; raise OctopiaError if the broker refuses or does not answer."""
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                return await self._ask(command)
        except TimeoutError:
            raise Unavailable("it does not answer") from None

    async def _ask(self, command: Command) -> dict[str, Any]:
        try:
            (report,) = await (await self._connected()).ask(command)
        except RequestRefused:
            raise
        except BaseException:
            # Also after a timeout or a cancellation: a late answer would be taken for that of the next command.
            self.close()
            raise
        return report

    async def _connected(self) -> Operator:
        if self._operator is not None and self._operator.is_open:
            return self._operator
        operator = Operator(self._address, self._credentials)
        try:
            await operator.open()
        except Unavailable:
            raise Unavailable(NOT_RUNNING) from None
        self._operator = operator
        return operator

    def close(self) -> None:
        """Close the connection, if there is one."""
        operator, self._operator = self._operator, None
        if operator is not None:
            operator.drop()
