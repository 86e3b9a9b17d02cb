"""The examples on the page about the client run, and its numbers are those of the code."""

from __future__ import annotations

import asyncio
import re
import textwrap
import threading
from pathlib import Path

import pytest

import octopia
from octopia.addresses import DEFAULT_PORT
from octopia.client import attempts, client, publisher

PAGE = (Path(__file__).parents[3] / "docs/client.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = [
    "101.5 b'any bytes'\n",
    "<Client 'feed', connected to a.0>\n",
    "",
    "1000\n",
    "0\n1\n2\n[3]\n",
    "0 0\n",
    "101\n",
    "0 0\n",
    "\n  price >> 3\n         ^\n",
    "2\n",
    "101.5\n",
]


async def run_in_loop(source: str, url: str) -> None:
    """Run an example in this event loop, with an open client unless it connects by itself."""
    names: dict[str, object] = {}
    exec(f"async def example(octopia, client):\n{textwrap.indent(source, '    ')}", names)
    if "octopia.connect" in source:
        await names["example"](octopia, None)
    else:
        async with octopia.connect(url) as connected:
            await names["example"](octopia, connected)


async def run_in_thread(source: str) -> None:
    thread = threading.Thread(target=exec, args=(source, {}))
    thread.start()
    await asyncio.to_thread(thread.join, 10)


@pytest.mark.parametrize(("source", "printed"), list(zip(BLOCKS, PRINTED, strict=True)))
def test_examples_run_and_print_what_they_should(source: str, printed: str, capsys: pytest.CaptureFixture[str]):
    async def run() -> None:
        async with octopia.Overlay.local("path:1", 1) as overlay:
            url = overlay.url("a.0")
            example = source.replace("octopia://127.0.0.1:7400", url)
            await (run_in_thread(example) if "connect_blocking" in source else run_in_loop(example, url))

    asyncio.run(run())
    out = capsys.readouterr().out
    assert out.endswith(printed)
    assert bool(out) == bool(printed)


def test_the_numbers_are_those_of_the_code():
    assert f"The default port is {DEFAULT_PORT}." in PAGE
    assert f"timeout={client.CONNECT_S:g})` can be used" in PAGE
    assert f"close(timeout={client.DRAIN_S:g})`" in PAGE
    assert f"wait up to {client.DRAIN_S:g} s for everything published" in PAGE
    assert f"`buffer` publications ({client.BUFFER:,})" in PAGE
    assert f"When {publisher.BACKLOG_BYTES_MAX // 1024} KiB are waiting" in PAGE
    waits = f"at first up to {attempts.BACKOFF_FIRST_S * 1000:g} ms, later up to {attempts.BACKOFF_MAX_S:g} s"
    assert waits in " ".join(PAGE.split())
