"""URLs of brokers: ``octopia://host:port/broker``; only the host is required."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from octopia.addresses import DEFAULT_HOST, DEFAULT_PORT, Address
from octopia.errors import UnknownBroker, UsageError
from octopia.ids import BrokerId

SCHEME = "octopia"
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
    if parts.scheme != SCHEME:
        raise _refusal(url, f"its scheme is {parts.scheme!r}" if parts.scheme else "it has no scheme")
    if not parts.hostname:
        raise _refusal(url, "it names no host")
    if port == 0 or parts.username is not None or parts.query or parts.fragment:
        raise _refusal(url, "only a host, a port from 1 to 65535 and a broker are allowed")
    return Address(parts.hostname, port or DEFAULT_PORT, _broker(url, parts.path.strip("/")))


def _broker(url: str, text: str) -> str:
    try:
        return str(BrokerId.parse(text)) if text else ""
    except UnknownBroker as error:
        raise _refusal(url, str(error)) from None


def _refusal(url: str, problem: str) -> UsageError:
    return UsageError(f"expected a URL such as {DEFAULT_URL} or {DEFAULT_URL}/b.3, got {url!r}: {problem}")
