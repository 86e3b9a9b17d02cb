"""Publish and subscribe in ten lines: brokers, a publisher and a subscriber in one program."""

import asyncio

import octopia


async def main() -> None:
    """Run nine brokers, and send one publication from London to Tokyo."""
    async with (
        octopia.Overlay.local(tree="nyc-lon, lon-tok", clusters=3) as overlay,
        overlay.connect("tok.1") as subscriber,
        overlay.connect("lon.0") as publisher,
    ):
        subscription = await subscriber.subscribe("symbol = 'IBM' AND price > 100")
        await publisher.advertise("symbol IN ('IBM', 'SAP') AND price > 0")
        await publisher.publish({"symbol": "IBM", "price": 101.5})
        received = await subscription.next(timeout=5)
        print(received["symbol"], received["price"], "over", received.hops, "links")


asyncio.run(main())
