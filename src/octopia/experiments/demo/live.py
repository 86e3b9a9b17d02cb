"""The live demo: twelve brokers under load, a live map, and links to throttle.

Publishers at b.3 publish what is wanted in every cluster, and others publish a little everywhere. It needs neither
Spark nor a workload, and runs until it is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from types import FrameType

from octopia.client import connect
from octopia.client.client import Client
from octopia.errors import Unavailable
from octopia.experiments.local_overlay import READY_S, at_free_addresses
from octopia.http.process import HttpProcess, check
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.runtime.process import Workers
from octopia.transport.loop import run_loop

TREE, CLUSTERS = "path:3", 4
SOURCE = "b.3"
RATE = 160.0
"""The publications per second at ``SOURCE``."""
ELSEWHERE = 6.0
"""The publications per second at each of the other publishers."""
OTHERS = ("a.0", "b.1", "c.2")
POLL_S = 0.5
"""The interval at which brokers that have died are restarted."""
TURN_S = 0.05
"""The interval at which publishers publish what is due."""


def run_live(http: str, http_token: str, announce: Callable[[Sequence[str]], None]) -> None:
    """Run the brokers, the load and the map until SIGINT or SIGTERM; ``announce`` gets the lines about the map."""
    overlay = at_free_addresses(overlay_from_text(TREE, CLUSTERS))
    address, guard = check(http, http_token, overlay, SOURCE)
    load = multiprocessing.get_context("fork").Process(target=_load, args=(overlay,), daemon=True)
    with contextlib.ExitStack() as stack:
        port = HttpProcess(overlay, address, guard)
        stack.callback(port.stop)
        workers = Workers(overlay, 2)
        stack.callback(workers.stop)
        stack.callback(_kill, load)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupt)
        with contextlib.suppress(KeyboardInterrupt):
            deadline = time.monotonic() + READY_S
            while not workers.is_ready():
                if time.monotonic() > deadline:
                    raise Unavailable(f"the brokers of {overlay.name} are not ready after {READY_S:g} s")
                workers.wait(POLL_S)
            load.start()
            announce(port.invitation)
            while load.is_alive():
                workers.poll()
                port.poll()
                load.join(POLL_S)


def _kill(process: BaseProcess) -> None:
    """Kill a process, unless it was never started."""
    if process.pid is not None:
        process.kill()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _load(overlay: Overlay) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run_loop(play(overlay))


async def play(overlay: Overlay, rate: float = RATE) -> None:
    """Subscribe at every broker, and publish until cancelled."""
    async with contextlib.AsyncExitStack() as stack:
        for broker in overlay.scot.brokers:
            client = await stack.enter_async_context(connect(_url(overlay, str(broker))))
            subscription = await client.subscribe("price > 100")
            stack.callback(asyncio.create_task(_read(subscription)).cancel)
        rates = {SOURCE: rate, **dict.fromkeys(OTHERS, ELSEWHERE)}
        publishers = [await stack.enter_async_context(connect(_url(overlay, broker))) for broker in rates]
        for client in publishers:
            await client.advertise("symbol = 'IBM' AND price > 0")
        await asyncio.gather(*(_publish(client, each) for client, each in zip(publishers, rates.values(), strict=True)))


def _url(overlay: Overlay, broker: str) -> str:
    return f"octopia://{overlay.addresses[overlay.scot.broker(broker)]}/{broker}"


async def _read(subscription: object) -> None:
    async for _ in subscription:  # type: ignore[attr-defined]
        pass


async def _publish(client: Client, rate: float) -> None:
    """Publish at a rate, in small batches."""
    begin, done = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - begin) * rate)
        for number in range(done, due):
            await client.publish({"symbol": "IBM", "price": 101.0 + number % 50})
        done = due
        await asyncio.sleep(TURN_S)
