"""A broker crashes and restarts. Its client reconnects, issues its subscription again, and notices the gap."""

import asyncio

import octopia


async def main() -> None:
    """Lose one publication to a crash, and receive the next."""
    async with octopia.Overlay.local(tree="a-b", clusters=2) as overlay:
        reconnected = asyncio.Event()
        subscriber = await overlay.connect(
            "b.1",
            on_disconnect=lambda reason: print("disconnected"),
            on_reconnect=lambda: (print("reconnected"), reconnected.set()),
        )
        subscription = await subscriber.subscribe("x > 0", on_gap=lambda _: print("publications may be missing"))
        publisher = await overlay.connect("a.0")
        await publisher.advertise("x > 0")

        await publisher.publish({"x": 1})
        print("received", (await subscription.next(timeout=5))["x"])

        overlay.crash("b.1")
        await publisher.publish({"x": 2})  # may or may not be delivered: there is a gap
        await overlay.restart("b.1")
        await reconnected.wait()
        await overlay.wait_until(overlay.is_ready, "b.1 to recover")
        # Requests keep their order: once this one is in force, the reissued subscription is in force too.
        await subscriber.subscribe("x > 0", callback=lambda _: None)

        await publisher.publish({"x": 3})
        while (received := await subscription.next(timeout=5))["x"] != 3:
            pass
        print("received", received["x"], "after", subscription.gaps, "gap")
        await publisher.close()
        await subscriber.close()


asyncio.run(main())
