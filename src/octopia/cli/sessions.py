"""Sessions of commands: connecting, with notices about long waits, and ending on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import typer

from octopia.cli.contexts import find_urls
from octopia.client import Client, connect
from octopia.client.client import CONNECT_S
from octopia.client.urls import parse_url

PATIENCE_S = 1.0
"""The time after which a command says what it waits for."""


@contextlib.asynccontextmanager
async def waiting_for(what: str) -> AsyncIterator[None]:
    """Say on stderr what a command waits for, if the block takes longer than a second."""
    timer = asyncio.get_running_loop().call_later(PATIENCE_S, lambda: typer.echo(f"waiting for {what}", err=True))
    try:
        yield
    finally:
        timer.cancel()


@contextlib.asynccontextmanager
async def connected(
    url: str | None, broker: str | None, timeout: float | None, name: str | None = None
) -> AsyncIterator[Client]:
    """Connect a client to the broker that the options of a command name, until the block ends."""
    urls = await find_urls(url, broker)
    addresses = [parse_url(each) for each in urls]
    names = ", ".join(each.broker or str(each) for each in addresses)
    async with contextlib.AsyncExitStack() as stack:
        async with waiting_for(names):
            client = await stack.enter_async_context(connect(urls, name=name, timeout=timeout or CONNECT_S))
        yield client


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
