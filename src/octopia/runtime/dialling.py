"""Dialling a neighbour: repeated attempts with back-off, for as long as the server runs."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from octopia.addresses import Address
from octopia.ids import BrokerId
from octopia.runtime.greeters import BROKER_LIMITS, Caller
from octopia.transport import Connection

if TYPE_CHECKING:
    from octopia.runtime.server import BrokerServer

BACKOFF_S = (0.05, 2.0)
"""The shortest and the longest wait between attempts to reach a neighbour."""
DIAL_S = 5.0
"""The time limit of one attempt."""
STEADY_S = 2.0
"""A connection that lasted this long resets the back-off."""


class Dialler:
    """The task that keeps a connection with one neighbour whenever that is possible."""

    def __init__(self, server: BrokerServer, peer: BrokerId, address: Address):
        self._server = server
        self._peer = peer
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._problem = ""
        self.task = self._loop.create_task(self._keep_dialling())

    def dial_again(self) -> None:
        """Note that the connection is gone."""
        self._gone.set()

    async def _keep_dialling(self) -> None:
        shortest_s, longest_s = BACKOFF_S
        wait_s = shortest_s
        line = self._server.lines[self._peer]
        while True:
            if line.is_cut:
                await line.healed.wait()
                wait_s = shortest_s
            self._gone.clear()
            if await self._dial():
                begin = self._loop.time()
                await self._gone.wait()
                if self._loop.time() - begin > STEADY_S:
                    wait_s = shortest_s
            await asyncio.sleep(random.uniform(0.5, 1.0) * wait_s)
            wait_s = min(longest_s, 2.0 * wait_s)

    async def _dial(self) -> bool:
        """Connect to the neighbour, and return whether it answered."""
        if self._server.lines[self._peer].is_cut:
            return False
        caller = Caller(self._server, self._peer)
        try:
            async with asyncio.timeout(DIAL_S):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(caller, BROKER_LIMITS, self._server.gate.tls_towards(self._peer)),
                    self._address.host,
                    self._address.port,
                )
        except UnicodeError:
            self._note_problem("its host name is not valid")
            return False
        except OSError as error:  # TimeoutError is one
            self._note_problem(str(error.strerror or error or "it does not answer"))
            return False
        self._problem = ""
        connection.expect_opening()
        connection.send([self._server.opening_for(str(self._peer))])
        try:
            return await caller.answer
        except asyncio.CancelledError:
            connection.abort()  # The server is stopping, and must not get another link.
            raise

    def _note_problem(self, problem: str) -> None:
        """Log why the neighbour cannot be reached, once per reason."""
        if self._problem != problem and self._server.note_unreachable(self._peer, problem, str(self._address)):
            self._problem = problem
