"""Sessions of commands: connecting, with notices about long waits, and ending on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Sequence

from octopia.cli.contexts import all_urls_of, find_urls
from octopia.cli.output import echo
from octopia.client import Client, connect
from octopia.client.client import CONNECT_S
from octopia.client.urls import parse_url
from octopia.errors import Unavailable

PATIENCE_S = 1.0
"""The time after which a command says what it waits for."""
_NAMES_MAX = 3


@contextlib.asynccontextmanager
async def waiting_for(what: str) -> AsyncIterator[None]:
    """Say on stderr what a command waits for, if the block takes longer than a second."""
    timer = asyncio.get_running_loop().call_later(PATIENCE_S, lambda: echo(f"waiting for {what}", err=True))
    try:
        yield
    finally:
        timer.cancel()


@contextlib.asynccontextmanager
async def connected(
    url: str | None, broker: str | None, timeout: float | None, name: str | None = None
) -> AsyncIterator[Client]:
    """Connect a client to the broker that the options of a command name, until the block ends.

    The timeout is for everything up to the broker's greeting, including the question where a named broker is.
    """
    limit_s = timeout or CONNECT_S
    async with contextlib.AsyncExitStack() as stack:
        async with waiting_for(broker or _names(all_urls_of(url))):
            urls, rest_s = await _find_in_time(url, broker, limit_s)
            client = await stack.enter_async_context(connect(urls, name=name, timeout=rest_s))
        yield client


async def _find_in_time(url: str | None, broker: str | None, limit_s: float) -> tuple[list[str], float]:
    """Return the URLs to connect to, and the rest of the time."""
    if not broker:
        return all_urls_of(url), limit_s
    begin_s = time.monotonic()
    try:
        async with asyncio.timeout(limit_s):
            urls = await find_urls(url, broker)
    except TimeoutError:
        raise Unavailable(f"no broker has answered where {broker} is (tried for {limit_s:g} s)") from None
    return urls, max(0.01, round(limit_s - (time.monotonic() - begin_s), 2))


def _names(urls: Sequence[str]) -> str:
    """Return the brokers at URLs, as messages name them."""
    names = [each.broker or str(each) for each in map(parse_url, urls)]
    return ", ".join(names[:_NAMES_MAX]) + ", ..." * (len(names) > _NAMES_MAX)


def end_like_ctrl_c(number: signal.Signals) -> None:
    """Let a signal end this command as Ctrl-C does."""
    signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def stopped_by_signal() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
