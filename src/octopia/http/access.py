"""Access to a port in a protected overlay: tokens of operators, and TLS with a broker's certificate.

The files are those of ``[security]``, and are read again when they change, as by brokers.
"""

from __future__ import annotations

import datetime
import ssl
import time
from pathlib import Path

from octopia.errors import BrokenCredentials
from octopia.http.guard import is_loopback
from octopia.overlay.files import Overlay
from octopia.security.tokens import TokenRole, find_token, read_tokens
from octopia.security.watching import Watched


class OperatorTokens:
    """The tokens of a file that are valid now and have the role of an operator."""

    def __init__(self, path: Path):
        self._tokens = Watched([path], lambda: read_tokens(path), time.monotonic)

    def __call__(self, presented: str) -> bool:
        """Return whether a token is accepted."""
        now = datetime.datetime.now(datetime.UTC)
        token = find_token(self._tokens.get(), presented, now)
        return token is not None and token.role is TokenRole.OPERATOR


def operators_of(overlay: Overlay, broker: str) -> OperatorTokens | None:
    """Return the tokens that a port beside a broker accepts, or None if the overlay has no tokens."""
    security = overlay.security
    return OperatorTokens(_path(security.client_tokens, broker)) if security.has_tokens else None


def is_encrypted(overlay: Overlay, host: str) -> bool:
    """Return whether a port speaks HTTPS: if other machines can reach its host, and there is a certificate."""
    return overlay.security.has_tls and not is_loopback(host)


def tls_of(overlay: Overlay, broker: str) -> ssl.SSLContext:
    """Return the TLS settings of a port beside a broker, whose certificate it shows."""
    paths = [_path(each, broker) for each in (overlay.security.certificate, overlay.security.key)]
    current = Watched(paths, lambda: _context(*paths), time.monotonic)
    context = _context(*paths)

    def renew(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = current.get()

    context.sni_callback = renew  # It is called for every connection, even for those that name no host.
    return context


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise BrokenCredentials(
            f"expected a certificate and its key in {certificate} and {key}, got: {error}"
        ) from None
    return context


def _path(text: str, broker: str) -> Path:
    return Path(text.replace("{broker}", broker))
