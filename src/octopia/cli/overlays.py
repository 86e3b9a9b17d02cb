"""Running overlays as operator commands see them: all brokers, through any one that answers."""

from __future__ import annotations

import dataclasses

from octopia.addresses import Address
from octopia.cli.contexts import find_first, find_operated
from octopia.cli.sessions import waiting_for
from octopia.client.operators import Answers, ask_everyone
from octopia.errors import NetworkError, PeerError
from octopia.protocol import Command

_BROKERS = "the brokers to answer"


async def ask_brokers(url: str | None, command: Command) -> Answers:
    """Ask all brokers of the overlay of a URL or of the context, and say so on stderr if it takes long."""
    async with waiting_for(_BROKERS):
        return await ask_everyone(await _find_entry(url), command)


async def _find_entry(url: str | None) -> Address:
    """Return the address of a broker to ask; under TLS its name matters, otherwise any broker there will do."""
    found = await find_operated(url)
    return found if found.speaks_tls else Address(found.host, found.port)


class Watched:
    """An overlay that is asked again and again, while its brokers stop and start.

    The first call needs a broker at the URL or in the context. Later calls go through any broker of the overlay.
    """

    def __init__(self, url: str | None):
        self._url = url
        self._entry: Address | None = None
        self._last: Answers | None = None

    async def ask(self, command: Command) -> Answers:
        """Ask all brokers; if none of them answers, all are among the problems."""
        if self._last is None:
            async with waiting_for(_BROKERS):
                self._entry = await _find_entry(self._url)
                self._last = await ask_everyone(self._entry, command)
        else:
            self._last = await self._ask_again(self._last, command)
        return self._last

    async def _ask_again(self, last: Answers, command: Command) -> Answers:
        assert self._entry is not None
        try:
            return await ask_everyone(self._entry, command)
        except (NetworkError, PeerError):
            pass  # Another broker has the same addresses.
        try:
            self._entry = await find_first([self._entry, *last.addresses.values()])
            return await ask_everyone(self._entry, command)
        except (NetworkError, PeerError):
            return dataclasses.replace(last, reports={}, problems=dict.fromkeys(last.brokers, "not running"))
