"""Access to a broker: TLS for its connections, certificates of neighbours, tokens of clients and operators.

Certificates and tokens are read again when their files change. A client is disconnected when its token expires, is
revoked or gets other permissions.
"""

from __future__ import annotations

import datetime
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from octopia.ids import BrokerId
from octopia.node import Permissions
from octopia.protocol import CloseCode
from octopia.security.tokens import Token, find_token, tokens_of
from octopia.security.watching import Watched
from octopia.settings import SecuritySettings
from octopia.transport import Connection
from octopia.transport.tls import TlsLayer, broker_context

REFUSAL = "the token is missing, wrong, expired or revoked"
"""The answer to every token that is not accepted: it reveals nothing about a guessed token."""
ENDED = "the token has expired or was revoked"
CHANGED = "the permissions of the token have changed"
_NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class Gate:
    """The identities that a broker accepts, and its own."""

    def __init__(
        self,
        security: SecuritySettings,
        broker: BrokerId,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ):
        self._now = now
        self._contexts: Watched[tuple[ssl.SSLContext, ssl.SSLContext]] | None = None
        self._tokens: Watched[dict[str, Token]] | None = None
        if security.has_tls:
            paths = [_path(each, broker) for each in (security.ca, security.certificate, security.key)]
            self._contexts = Watched(paths, lambda: _contexts(*paths), time.monotonic)
        if security.has_tokens:
            path = _path(security.client_tokens, broker)
            self._tokens = Watched([path], lambda: tokens_of(path, security.own_operator), time.monotonic)
        self._reviewed: dict[str, Token] = {}
        self._review_at = _NEVER

    @property
    def needs_token(self) -> bool:
        """True if clients and operators need a token."""
        return self._tokens is not None

    @property
    def problems(self) -> list[str]:
        """The reasons why changed files are not in use."""
        watched = (self._contexts, self._tokens)
        return [each.problem for each in watched if each is not None and each.problem]

    def tls_for_guest(self) -> TlsLayer | None:
        """Return the TLS of a connection that was accepted, or None."""
        return None if self._contexts is None else TlsLayer(self._contexts.get()[0], is_server=True)

    def tls_towards(self, peer: BrokerId) -> TlsLayer | None:
        """Return the TLS of a connection to a neighbour, whose certificate must name it, or None."""
        return None if self._contexts is None else TlsLayer(self._contexts.get()[1], expects=str(peer))

    def refusal_of_neighbour(self, connection: Connection, name: str) -> str:
        """Return why a connection is not that of a broker with this name, or an empty string."""
        if self._contexts is None or name in connection.peer_brokers:
            return ""
        named = ", ".join(connection.peer_brokers) or "no broker"
        return f"expected a certificate that names {name}, got one that names {named}"

    def permissions_for(self, presented: str) -> Permissions | None:
        """Return the permissions that a token gives, or None if it is not accepted."""
        assert self._tokens is not None
        token = find_token(self._tokens.get(), presented, self._now())
        return None if token is None else token.permissions

    def end_of(self, permissions: Permissions) -> tuple[CloseCode, str] | None:
        """Return why a connection with these permissions must end, or None; after a change the client may return."""
        if self._tokens is None:
            return None
        token = self._tokens.get().get(permissions.holder)
        if token is None or not token.is_valid(self._now()) or token.permissions.serial != permissions.serial:
            return CloseCode.ACCESS_DENIED, ENDED
        return None if token.permissions == permissions else (CloseCode.SHUTDOWN, CHANGED)

    def has_news(self) -> bool:
        """Return whether tokens have changed or expired since the last call."""
        if self._tokens is None:
            return False
        tokens, now = self._tokens.get(), self._now()
        has_news = tokens is not self._reviewed or now >= self._review_at
        if has_news:
            self._reviewed = tokens
            ends = [each.expires for each in tokens.values() if each.expires is not None and each.expires > now]
            self._review_at = min(ends, default=_NEVER)
        return has_news


def _path(text: str, broker: BrokerId) -> Path:
    return Path(text.replace("{broker}", str(broker)))


def _contexts(ca: Path, certificate: Path, key: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return (
        broker_context(ca, certificate, key, is_server=True),
        broker_context(ca, certificate, key, is_server=False),
    )
