"""The brokers behind a port: those of this process, or all of an overlay on this machine."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from octopia.addresses import Address
from octopia.client.credentials import find_credentials
from octopia.errors import OctopiaError, RequestRefused, Unavailable
from octopia.http.operators import StayingOperator
from octopia.http.snapshot import Snapshot
from octopia.overlay.files import Overlay
from octopia.protocol import Command, Verb
from octopia.runtime.operating import answer, report_on
from octopia.runtime.server import BrokerServer

SNAPSHOT_S = 2.0
"""The time after which a broker that does not answer counts as not running."""


class LocalSource:
    """The brokers of this process."""

    def __init__(self, overlay: Overlay, servers: Sequence[BrokerServer]):
        self.overlay = overlay
        self._servers = {str(server.id): server for server in servers}
        self.brokers = tuple(self._servers)

    async def snapshot(self) -> Snapshot:
        """Return the state of all brokers."""
        running = [server for server in self._servers.values() if not server.fenced]
        problems = {str(server.id): server.fenced for server in self._servers.values() if server.fenced}
        return Snapshot(time.time() * 1000.0, {str(server.id): report_on(server) for server in running}, problems)

    async def ask(self, broker: str, command: Command) -> dict[str, Any]:
        """Send a command to a broker, and return its answer."""
        server = self._servers[broker]
        if server.fenced:
            raise Unavailable(server.fenced)
        found = answer(server, command)
        if found.problem:
            raise RequestRefused(found.problem)
        return found.report

    def close(self) -> None:
        """Do nothing: there are no connections."""


class OperatorSource:
    """All brokers of an overlay on this machine, in any number of processes, with one connection per broker."""

    def __init__(self, overlay: Overlay, token: str = ""):
        """Connect with a token if there is one, and under TLS with brokers of the overlay's authority only."""
        self.overlay = overlay
        credentials = find_credentials(token or None, overlay.security.ca or None)
        self._operators = {
            str(broker): StayingOperator(_named(address, str(broker)), credentials)
            for broker, address in overlay.addresses.items()
        }
        self.brokers = tuple(str(broker) for broker in overlay.scot.brokers)

    async def snapshot(self) -> Snapshot:
        """Return the state of all brokers."""
        found = await asyncio.gather(*map(self._report, self.brokers))
        answers = dict(zip(self.brokers, found, strict=True))
        reports = {broker: each for broker, each in answers.items() if isinstance(each, dict)}
        problems = {broker: str(each) for broker, each in answers.items() if not isinstance(each, dict)}
        return Snapshot(time.time() * 1000.0, reports, problems)

    async def _report(self, broker: str) -> dict[str, Any] | OctopiaError:
        try:
            return await self._operators[broker].ask(Command(Verb.REPORT), SNAPSHOT_S)
        except OctopiaError as error:
            return error

    async def ask(self, broker: str, command: Command) -> dict[str, Any]:
        """Send a command to a broker, and return its answer."""
        return await self._operators[broker].ask(command)

    def close(self) -> None:
        """Close all connections."""
        for operator in self._operators.values():
            operator.close()


def _named(address: Address, broker: str) -> Address:
    """Return the address of a broker, which under TLS is identified by its name."""
    return dataclasses.replace(address, broker=broker) if address.speaks_tls else address
