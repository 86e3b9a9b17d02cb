"""The relay of fault runs: it relays, cuts and swallows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from proxy import Proxy

PATIENCE_S = 10.0


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[tuple[Proxy, int]]:
    """Run a server that returns every line, behind a relay."""

    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            async for line in reader:
                writer.write(line)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    port = await proxy.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield proxy, port
    finally:
        await proxy.stop()
        for writer in writers:
            await close(writer)
        server.close()
        await server.wait_closed()


async def ask(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\n")
    return reader, writer


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def test_bytes_pass_in_both_directions_and_so_does_the_end():
    async def main() -> None:
        async with echo() as (_, port):
            reader, writer = await ask(port)
            assert await reader.readline() == b"hello\n"
            big = b"x" * 60_000 + b"\n"
            writer.write(big)
            assert await reader.readline() == big
            await close(writer)

    asyncio.run(main())


def test_a_cut_breaks_the_connection_and_the_next_one_works():
    async def main() -> None:
        async with echo() as (proxy, port):
            reader, writer = await ask(port)
            await reader.readline()
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            await close(writer)
            reader, writer = await ask(port)
            assert await reader.readline() == b"hello\n"
            await close(writer)

    asyncio.run(main())


def test_swallowed_bytes_never_arrive_and_break_the_connection_when_the_relay_heals():
    async def main() -> None:
        async with echo() as (proxy, port):
            before = await ask(port)
            await before[0].readline()
            proxy.swallow()
            before[1].write(b"lost\n")
            during = await ask(port)
            await proxy.has_swallowed_from(2)
            assert not before[0].at_eof()
            proxy.heal()
            for reader, writer in (before, during):
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                await close(writer)
            reader, writer = await ask(port)
            assert await reader.readline() == b"hello\n"
            await close(writer)

    asyncio.run(main())


def test_a_caller_is_cut_off_if_nobody_listens_behind_the_relay():
    async def main() -> None:
        async with echo() as (_, unused):
            pass
        proxy = Proxy(unused)
        port = await proxy.start()
        reader, writer = await ask(port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        await close(writer)
        await proxy.stop()

    asyncio.run(main())
