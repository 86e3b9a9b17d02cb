"""Checks of the files that ``[security]`` names, before brokers are started: one sentence per fault.

Certificates are tested rather than parsed: both ends of a connection run in memory, with the code of brokers. A
certificate that passes here is accepted by neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from octopia.errors import BrokenCredentials, TlsFailure
from octopia.security.tokens import read_tokens
from octopia.settings import SecuritySettings
from octopia.transport.tls import TlsLayer, broker_context

_FLIGHTS = 4
"""The number of rounds in which both ends of a TLS handshake send."""
_MAKE = {"authority": "octopia cert ca", "certificate": "octopia cert broker", "key": "octopia cert broker"}


def faults_of(security: SecuritySettings, brokers: Sequence[str]) -> list[str]:
    """Return the faults of the files of some brokers; a fault of a shared file is reported once."""
    found: dict[str, None] = {}
    for broker in brokers:
        if security.has_tls:
            found |= dict.fromkeys(_faults_of_certificate(security, broker))
        if security.has_tokens:
            found |= dict.fromkeys(_faults_of_tokens(_path(security.client_tokens, broker)))
    return list(found)


def _faults_of_certificate(security: SecuritySettings, broker: str) -> list[str]:
    ca, certificate, key = (_path(each, broker) for each in (security.ca, security.certificate, security.key))
    files = {
        ca: ("authority", "the certificate of an authority"),
        certificate: ("certificate", f"a certificate of {broker}"),
        key: ("key", f"the key of {broker}"),
    }
    unreadable = [fault for path, (kind, what) in files.items() if (fault := _unreadable(path, kind, what))]
    if unreadable:
        return unreadable
    try:
        _shake_hands(ca, certificate, key, broker)
    except BrokenCredentials as error:
        return [str(error)]
    except TlsFailure as error:
        reason = str(error).removeprefix("the certificate of the other end is not accepted: ")
        return [f"the certificate in {certificate} is not accepted under {ca}: {reason}"]
    return []


def _unreadable(path: Path, kind: str, what: str) -> str:
    try:
        path.read_bytes()
    except FileNotFoundError:
        return f"expected {what} at {path}, got no file: make it with `{_MAKE[kind]}`"
    except OSError as error:
        return f"expected {what} at {path}, got a file that cannot be read: {error.strerror}"
    return ""


def _shake_hands(ca: Path, certificate: Path, key: Path, broker: str) -> None:
    """Let a broker connect to itself in memory; raise BrokenCredentials or TlsFailure."""
    accepting, dialling = (
        TlsLayer(broker_context(ca, certificate, key, is_server=is_server), is_server=is_server, expects=broker)
        for is_server in (True, False)
    )
    dialling.begin()
    for _ in range(_FLIGHTS):
        for one, other in ((dialling, accepting), (accepting, dialling)):
            if flight := one.take():
                other.feed(flight)


def _faults_of_tokens(path: Path) -> list[str]:
    if not path.exists():
        return [f"expected a file of tokens at {path}, got none: make it with `octopia token add`"]
    try:
        read_tokens(path)
    except BrokenCredentials as error:
        return [str(error)]
    return []


def _path(text: str, broker: str) -> Path:
    return Path(text.replace("{broker}", broker))
