"""The credentials of a client: its token, and the authority whose certificates it accepts."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from octopia.addresses import Address
from octopia.errors import Unavailable, UsageError
from octopia.protocol.handshake import TOKEN_LENGTH_MAX
from octopia.transport.tls import TlsLayer, client_context

TOKEN_VARIABLE = "OCTOPIA_TOKEN"
CA_VARIABLE = "OCTOPIA_CA"

TokenSource: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or a function that returns one, which is called before each connection."""


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """A token, and the certificate file of an authority; the default is the authorities of this machine."""

    source: TokenSource = dataclasses.field(default="", repr=False)
    ca: Path | None = None

    async def token(self) -> str:
        """Return the token for the next connection, or an empty string; raise Unavailable if the function fails."""
        if isinstance(self.source, str):
            return self.source
        try:
            found = self.source()
            return _checked(await found if inspect.isawaitable(found) else found)
        except Exception as error:  # It is a function of the program, and may succeed the next time.
            raise Unavailable(f"expected a token from the program's function, got: {error!r}") from error

    def tls_towards(self, address: Address) -> TlsLayer | None:
        """Return the TLS of a connection to a broker, or None.

        A URL that names a broker is checked against the broker in the certificate, any other against its host.
        """
        if not address.speaks_tls:
            return None
        if address.broker:
            return TlsLayer(_context(self.ca, checks_host=False), expects=address.broker)
        return TlsLayer(_context(self.ca, checks_host=True), host=address.host)


def find_credentials(token: TokenSource | None = None, ca: str | Path | None = None) -> Credentials:
    """Return the credentials of a client; by default they come from OCTOPIA_TOKEN and OCTOPIA_CA."""
    found = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
    if not callable(found):
        found = _checked(found)
    path = os.environ.get(CA_VARIABLE) if ca is None else ca
    return Credentials(found, Path(path) if path else None)


def _checked(token: object) -> str:
    if not isinstance(token, str) or len(token) > TOKEN_LENGTH_MAX:
        kind = "a longer one" if isinstance(token, str) else type(token).__name__
        raise UsageError(f"expected a token of at most {TOKEN_LENGTH_MAX} characters, or a function, got {kind}")
    return token.strip()


def _context(ca: Path | None, *, checks_host: bool) -> ssl.SSLContext:
    try:
        changed_ns = 0 if ca is None else ca.stat().st_mtime_ns
    except OSError:
        changed_ns = 0
    return _context_of(ca, changed_ns, checks_host)


@functools.lru_cache(maxsize=16)
def _context_of(ca: Path | None, changed_ns: int, checks_host: bool) -> ssl.SSLContext:
    """Return TLS settings; they are kept, since reading all authorities of a machine takes milliseconds."""
    return client_context(ca, checks_host=checks_host)
