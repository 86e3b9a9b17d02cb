"""TLS 1.3 between the frames of a connection and its transport.

A ``TlsLayer`` turns bytes into other bytes and touches no socket. So a connection under TLS is batched, paused and
closed as a plain one is, and both ends learn why a handshake failed: the TLS of event loops does not report that on
the side of a server.

A broker is identified by its certificate. A subject alternative name ``URI:octopia://broker/b.3`` makes it one of b.3.
Host names are not suitable: regions may have capital letters and underscores, and brokers move between machines.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable
from pathlib import Path

from octopia.errors import BrokenCredentials, TlsFailure

URI_PREFIX = "octopia://broker/"
"""The beginning of the subject alternative name that names a broker."""
TLS_S = 2.0
"""The time within which a TLS handshake must be done."""
RECORD_BYTES = 16 * 1024
_RECORD_START = b"\x16\x03"
_ALERT_START = b"\x15\x03"


def begins_handshake(data: bytes | memoryview) -> bool:
    """Return whether the first bytes of a connection are those of a TLS client.

    As the start of a frame they would be the length of one that is longer than any Opening.
    """
    start = bytes(data[:3])
    return start[:2] == _RECORD_START[: len(start)] and (len(start) < 3 or start[2] in (1, 2, 3, 4))


def _answers_handshake(data: bytes | memoryview) -> bool:
    start = bytes(data[:2])
    return start in (_RECORD_START[: len(start)], _ALERT_START[: len(start)])


class TlsLayer:
    """One end of a TLS connection, which is established once the handshake is done.

    ``expects`` is the broker that the certificate of the other end must name; empty means that it is not checked here.
    ``has_plain_peer`` is set if the client of this server does not speak TLS.
    """

    def __init__(self, context: ssl.SSLContext, *, is_server: bool = False, host: str | None = None, expects: str = ""):
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server, server_hostname=host)
        self._is_server = is_server
        self._expects = expects
        self._has_heard = False
        self.has_plain_peer = False
        self.is_established = False

    def begin(self) -> None:
        """Start the handshake; a server waits for the client."""
        if not self._is_server:
            self._shake_hands()

    def feed(self, data: bytes | memoryview) -> bytes:
        """Add received bytes, and return the decrypted ones, which may be none; raise TlsFailure."""
        if not self._has_heard:
            self._has_heard = True
            self._check_start(data)
        self._incoming.write(data)
        try:
            if not self.is_established:
                self._shake_hands()
            return self._read() if self.is_established else b""
        except ssl.SSLError as error:
            raise TlsFailure(_explain(error, is_established=self.is_established)) from None

    def encrypt(self, data: bytes | bytearray) -> None:
        """Encrypt bytes for ``take``; the connection must be established."""
        left = memoryview(data)
        while left:
            left = left[self._object.write(left) :]

    def take(self) -> bytes:
        """Remove and return the bytes to send."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def close(self) -> None:
        """Announce to the other end that nothing more follows."""
        with contextlib.suppress(ssl.SSLError):  # The answer of the other end is not waited for.
            self._object.unwrap()

    @property
    def peer_brokers(self) -> tuple[str, ...]:
        """The brokers that the certificate of the other end names; none without a certificate."""
        return self._brokers_in_certificate() if self.is_established else ()

    def _brokers_in_certificate(self) -> tuple[str, ...]:
        found = self._object.getpeercert() or {}
        names: Iterable[tuple[str, str]] = found.get("subjectAltName", ())  # type: ignore[assignment]
        return tuple(
            [name.removeprefix(URI_PREFIX) for kind, name in names if kind == "URI" and name.startswith(URI_PREFIX)]
        )

    def _check_start(self, data: bytes | memoryview) -> None:
        if self._is_server and not begins_handshake(data):
            self.has_plain_peer = True
            raise TlsFailure("expected TLS, got a plain connection: use octopias://")
        if not self._is_server and not _answers_handshake(data):
            raise TlsFailure("the server does not speak TLS: use octopia://, or configure [security] of the broker")

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        brokers = self._brokers_in_certificate()
        if self._expects and self._expects not in brokers:
            named = ", ".join(brokers) or "no broker"
            raise TlsFailure(f"expected a certificate that names {self._expects}, got one that names {named}")
        self.is_established = True

    def _read(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._object.read(RECORD_BYTES):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _explain(error: ssl.SSLError, *, is_established: bool) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other end is not accepted: {error.verify_message}"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "alert" in reason:
        return f"the other end does not accept this TLS connection: {reason}"
    expected = "encrypted data" if is_established else "a TLS 1.3 handshake"
    return f"expected {expected}, got an error: {reason}"


def broker_context(ca: Path, certificate: Path, key: Path, *, is_server: bool) -> ssl.SSLContext:
    """Return the TLS settings of a broker that accepts or dials connections; raise BrokenCredentials.

    Neighbours must have a certificate. Clients need none, so accepting brokers verify a certificate only if there is
    one, and check the names in it once the other end has identified itself.
    """
    context = _context(is_server=is_server)
    context.verify_mode = ssl.CERT_OPTIONAL if is_server else ssl.CERT_REQUIRED
    if is_server:
        # A resumed connection would keep an identity whose certificate may have been replaced since.
        context.num_tickets = 0
    _load_ca(context, ca)
    try:
        context.load_cert_chain(certificate, key)
    except FileNotFoundError:
        missing = key if certificate.exists() else certificate
        raise BrokenCredentials(f"expected a file at {missing}, got none: make it with `octopia cert broker`") from None
    except ssl.SSLError as error:
        if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
            problem = f"expected the key of the certificate in {certificate}, got another one in {key}"
        else:
            problem = f"expected a certificate and its key, in PEM, in {certificate} and {key}, got something else"
        raise BrokenCredentials(problem) from None
    except (OSError, ValueError) as error:
        raise BrokenCredentials(
            f"expected a certificate and its key in {certificate} and {key}, got: {error}"
        ) from None
    return context


def client_context(ca: Path | None, *, checks_host: bool) -> ssl.SSLContext:
    """Return the TLS settings of a client; without ``ca`` it accepts what this machine accepts."""
    context = _context(is_server=False)
    context.verify_mode = ssl.CERT_REQUIRED
    context.check_hostname = checks_host
    if ca is None:
        context.load_default_certs()
    else:
        _load_ca(context, ca)
    return context


def _context(*, is_server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    return context


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except FileNotFoundError:
        raise BrokenCredentials(f"expected the certificate of an authority at {ca}, got no file") from None
    except ssl.SSLError:
        raise BrokenCredentials(
            f"expected the certificate of an authority, in PEM, at {ca}, got another file"
        ) from None
    except (OSError, ValueError) as error:
        raise BrokenCredentials(f"expected the certificate of an authority at {ca}, got: {error}") from None
