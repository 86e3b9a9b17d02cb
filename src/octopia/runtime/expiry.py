"""The end of tokens: connections whose token has expired, was revoked or has other permissions are closed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from octopia.ids import ClientId
from octopia.protocol import CloseCode
from octopia.runtime.eventlog import EventKind
from octopia.runtime.operating import Desk

if TYPE_CHECKING:
    from octopia.runtime.server import BrokerServer


class Expiry:
    """Disconnects the clients and the operators of one broker whose tokens are no longer valid."""

    def __init__(self, server: BrokerServer):
        self._server = server
        self._problems: list[str] = []

    def check(self) -> None:
        """Look at all connections if tokens have changed or expired since the last time."""
        server = self._server
        if server.gate.has_news():
            for client, link in list(server.node.clients.items()):
                if link.permissions is not None and (end := server.gate.end_of(link.permissions)):
                    self._dismiss(client, *end)
            for guest in list(server.guests):
                permissions = guest.owner.permissions if isinstance(guest.owner, Desk) else None
                if permissions is not None and (end := server.gate.end_of(permissions)):
                    guest.close(*end)
        self._note_problems()

    def _dismiss(self, client: ClientId, code: CloseCode, reason: str) -> None:
        """Disconnect a client, and withdraw everything that it issued."""
        server = self._server
        server.events.note(EventKind.REFUSED, client.name, logging.INFO, client=client.name, reason=reason)
        line = server.client_lines.pop(client, None)
        if line is not None:
            line.close(code, reason)
        server.node.detach(client, server.now_ms())

    def _note_problems(self) -> None:
        """Log why changed files are not in use, once per reason."""
        found = self._server.gate.problems
        for problem in found:
            if problem not in self._problems:
                self._server.events.note(EventKind.STALE_CREDENTIALS, "files", logging.ERROR, reason=problem)
        self._problems = found
