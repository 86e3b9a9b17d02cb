"""Clients in a process of their own, for tests: subscribers that count, or a publisher with a steady rate.

Usage: client_process.py subscribe FILTER URL…
       client_process.py publish FILTER URL COUNT RATE PAYLOAD_BYTES

Subscribers say ``ready`` when all are confirmed. After the line ``await N`` they say ``complete`` when each has got N
publications. Every other line is answered with the numbers that each has got, how many of them more than once, and all
delays. The publisher says ``ready``, begins with a line of its input, and says
``done`` when everything was accepted. Publications have the attributes x = 1 and n, their number.
"""

from __future__ import annotations

import asyncio
import sys

from broker_process import lines_of_stdin, say
from raw_client import RawClient

from octopia.protocol.messages import Deliver


async def subscribe(text: str, *urls: str) -> None:
    loop = asyncio.get_running_loop()
    clients = [await RawClient(f"S{number}").connect(url) for number, url in enumerate(urls)]
    delays_ms: list[list[float]] = [[] for _ in clients]
    awaited: list[int] = []

    def say_if_complete() -> None:
        if awaited and all(len(delays) >= awaited[0] for delays in delays_ms):
            awaited.clear()
            say(event="complete")

    for client, delays in zip(clients, delays_ms, strict=True):
        # One machine has one monotonic clock, in all of its namespaces.
        def note(delivery: Deliver, delays: list[float] = delays) -> None:
            delays.append(loop.time() * 1000.0 - delivery.published_ms)
            say_if_complete()

        client.on_deliver = note
        await client.subscribe(text)
    say(event="ready")
    async for line in lines_of_stdin():
        if line.startswith("await "):
            awaited.append(int(line.removeprefix("await ")))
            say_if_complete()
            continue
        counts = [client.got() for client in clients]
        say(
            event="received",
            numbers=[sorted(count) for count in counts],
            doubled=[sum(each > 1 for each in count.values()) for count in counts],
            delays_ms=delays_ms,
        )
    for client in clients:
        client.leave()


async def publish(text: str, url: str, count: str, rate: str, payload_bytes: str) -> None:
    loop = asyncio.get_running_loop()
    client = await RawClient("P").connect(url)
    await client.advertise(text)
    say(event="ready")
    commands = lines_of_stdin()
    await anext(commands)
    start, total, payload = loop.time(), int(count), bytes(int(payload_bytes))
    done = loop.create_future()

    def publish_due(number: int) -> None:
        while number < total and start + number / float(rate) <= loop.time():
            client.publish(number, payload, x=1, n=number)
            number += 1
        if number < total:
            loop.call_at(start + number / float(rate), publish_due, number)
        else:
            done.set_result(None)

    publish_due(0)
    await done
    await client.until_answered(lambda: client.is_at_rest, "acknowledgements")
    say(event="done", seconds=loop.time() - start)
    async for _ in commands:
        pass
    client.leave()


if __name__ == "__main__":
    asyncio.run({"subscribe": subscribe, "publish": publish}[sys.argv[1]](*sys.argv[2:]))
