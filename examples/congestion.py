"""A congested link: static routing waits for it, dynamic routing goes around it.

The publisher is in London, at lon.0. Subscribers are in Tokyo, at tok.1 and tok.2. The direct path to tok.1 is
lon.0 > lon.1 > tok.1, over two links, but the link from lon.0 to lon.1 carries only ten publications per second. The
path around it is lon.0 > lon.2 > lon.1 > tok.1, over three links.
"""

import asyncio
import statistics
from collections import Counter

import octopia

PUBLICATIONS = 60
RATE = 60.0


async def run(algorithm: octopia.Algorithm) -> list[octopia.Received]:
    """Publish for a second, and return the publications that the client at tok.1 received."""
    routing = octopia.RoutingSettings(algorithm=algorithm)
    async with octopia.Overlay.local(tree="nyc-lon, lon-tok", clusters=3, routing=routing) as overlay:
        overlay.throttle("lon.0", "lon.1", rate=10)
        async with (
            overlay.connect("tok.1") as fund,
            overlay.connect("tok.2") as desk,
            overlay.connect("lon.0") as exchange,
        ):
            subscription = await fund.subscribe("price > 100")
            await desk.subscribe("price > 100", callback=lambda _: None)
            await exchange.advertise("price > 0")
            for number in range(PUBLICATIONS):
                await exchange.publish({"price": 101.0 + number})
                await asyncio.sleep(1 / RATE)
            return [await subscription.next(timeout=30) for _ in range(PUBLICATIONS)]


async def main() -> None:
    """Compare the two algorithms."""
    for algorithm in (octopia.Algorithm.STATIC, octopia.Algorithm.DYNAMIC):
        received = await run(algorithm)
        delays = sorted(each.received_ms - each.published_ms for each in received)
        hops = Counter(each.hops for each in received)
        print(f"{algorithm} routing: median delay {statistics.median(delays):.0f} ms, longest {delays[-1]:.0f} ms")
        for links, count in sorted(hops.items()):
            print(f"  {count} publications over {links} links")


asyncio.run(main())
