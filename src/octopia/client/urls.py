"""URLs of brokers: ``octopia://host:port/broker``, or ``octopias://`` for TLS; only the host is required."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from octopia.addresses import DEFAULT_HOST, DEFAULT_PORT, Address, can_be_resolved
from octopia.errors import UnknownBroker, UsageError
from octopia.ids import BrokerId

SCHEME = "octopia"
TLS_SCHEME = "octopias"
VARIABLE = "OCTOPIA_URL"
DEFAULT_URL = f"{SCHEME}://{DEFAULT_HOST}:{DEFAULT_PORT}"


def find_addresses(urls: str | Sequence[str] | None) -> tuple[Address, ...]:
    """Parse one or several URLs; the default is OCTOPIA_URL (separated by commas), then the local broker."""
    if urls is None:
        urls = os.environ.get(VARIABLE) or DEFAULT_URL
    if isinstance(urls, str):
        urls = [each.strip() for each in urls.split(",")]
    if not isinstance(urls, Sequence) or not all(isinstance(each, str) for each in urls):
        raise UsageError(f"expected the URL of a broker, such as {DEFAULT_URL}, or a list of them, got {urls!r}")
    if not urls:
        raise UsageError(f"expected the URL of a broker, such as {DEFAULT_URL}, got none")
    return tuple(map(parse_url, urls))


def parse_url(url: str) -> Address:
    """Parse one URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refusal(url, str(error)) from None
    if not can_be_resolved(parts.hostname or ""):
        raise _refusal(url, "its host name has a part that is empty or too long")
    if parts.scheme not in (SCHEME, TLS_SCHEME):
        raise _refusal(url, f"its scheme is {parts.scheme!r}" if parts.scheme else "it has no scheme")
    if not parts.hostname:
        raise _refusal(url, "it names no host")
    if port == 0 or parts.username is not None or parts.query or parts.fragment:
        raise _refusal(url, "only a host, a port from 1 to 65535 and a broker are allowed")
    broker = _broker(url, parts.path.strip("/"))
    return Address(parts.hostname, port or DEFAULT_PORT, broker, speaks_tls=parts.scheme == TLS_SCHEME)


def url_of(address: Address, broker: str = "") -> str:
    """Return the URL of an address, with the name of a broker if there is one."""
    name = broker or address.broker
    return f"{TLS_SCHEME if address.speaks_tls else SCHEME}://{address}{name and '/'}{name}"


def _broker(url: str, text: str) -> str:
    try:
        return str(BrokerId.parse(text)) if text else ""
    except UnknownBroker as error:
        raise _refusal(url, str(error)) from None


def _refusal(url: str, problem: str) -> UsageError:
    return UsageError(f"expected a URL such as {DEFAULT_URL} or {DEFAULT_URL}/b.3, got {url!r}: {problem}")
