"""The page about the client shows what works."""

from __future__ import annotations

import asyncio
import re
import textwrap
import threading
from pathlib import Path

import pytest

from fake_broker import FakeBroker, confirm, delivery
from octopia.addresses import DEFAULT_PORT
from octopia.client import client, dialling, publishing
from octopia.protocol.messages import ClientReply, ClientRequest, PublishRequest

PAGE = (Path(__file__).parents[3] / "docs/client.md").read_text()
IN_A_LOOP, WITHOUT_ONE = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def echo(request: ClientRequest) -> list[ClientReply]:
    """Confirm everything, and deliver what is published to the second handle, which is the subscription's."""
    if isinstance(request, PublishRequest):
        return [delivery(dict(request.publication.attributes), (2,), 1, request.publication.payload)]
    return confirm(request)


def test_the_example_in_an_event_loop_runs(capsys: pytest.CaptureFixture[str]):
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = echo
            source = IN_A_LOOP.replace("octopia://127.0.0.1:7400", broker.url)
            names: dict[str, object] = {}
            exec(f"async def example():\n{textwrap.indent(source, '    ')}", names)
            await names["example"]()

    asyncio.run(run())
    assert capsys.readouterr().out == "101.5 b'any bytes'\n"


def test_the_example_without_an_event_loop_runs(capsys: pytest.CaptureFixture[str]):
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = echo
            source = WITHOUT_ONE.replace("octopia://127.0.0.1:7400", broker.url)
            example = threading.Thread(target=exec, args=(source, {}))
            example.start()
            await asyncio.to_thread(example.join, 10)

    asyncio.run(run())
    assert capsys.readouterr().out == "2\n"


def test_the_numbers_are_those_of_the_code():
    assert f"The port is {DEFAULT_PORT} if" in PAGE
    assert f"timeout_s={client.CONNECT_S:g})`" in PAGE
    assert f"waits up to {client.DRAIN_S:g} s for what was published" in PAGE
    assert f"`buffer` publications ({client.BUFFER:,})" in PAGE
    assert f"When {publishing.BACKLOG_BYTES_MAX // 1024} KiB wait" in PAGE
    assert f"up to {dialling.BACKOFF_FIRST_S * 1000:g} ms at first, up to {dialling.BACKOFF_MAX_S:g} s" in PAGE
