"""A client in a process of its own, which tests kill and start again under its name.

Usage: returning_client.py subscribe|publish URL NAME FIRST

It says ``ready``, and then each publication that it ``received``, or ``made`` and found ``accepted``, and each ``gap``.
A publisher numbers its publications from FIRST on. At the end of its input it closes its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time

from broker_process import lines_of_stdin, say
from ticking import ticks

import octopia

PERIOD_S = 0.01
CONNECT_S = 20.0


async def subscribe(client: octopia.Client, _: int) -> None:
    await client.subscribe(
        "n >= 0",
        callback=lambda publication: say(event="received", n=publication["n"]),
        on_gap=lambda _: say(event="gap", at_s=time.monotonic()),
        timeout=CONNECT_S,
    )
    say(event="ready", at_s=time.monotonic())
    async for _line in lines_of_stdin():
        pass


async def publish(client: octopia.Client, first: int) -> None:
    await client.advertise("n >= 0 AND even IS NOT NULL", timeout=CONNECT_S)
    say(event="ready", at_s=time.monotonic())
    publishing = asyncio.get_running_loop().create_task(_publish_steadily(client, first))
    async for _line in lines_of_stdin():
        pass
    publishing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await publishing


async def _publish_steadily(client: octopia.Client, number: int) -> None:
    async for _ in ticks(PERIOD_S):
        say(event="made", n=number, at_s=time.monotonic())
        with contextlib.suppress(octopia.OctopiaError):
            await client.publish({"n": number, "even": number % 2 == 0})
            say(event="accepted", n=number)
        number += 1


async def main(role: str, url: str, name: str, first: str) -> None:
    async with octopia.connect(url, name=name, timeout=CONNECT_S) as client:
        await {"subscribe": subscribe, "publish": publish}[role](client, int(first))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
