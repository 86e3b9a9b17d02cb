"""The blocking client, for programs without an event loop.

The brokers run in a thread of this program, so it needs no other processes. To use brokers that run elsewhere, call
``octopia.connect_blocking("octopia://broker3.example.com:7400")``.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import octopia


@contextlib.contextmanager
def brokers() -> Iterator[octopia.Overlay]:
    """Run an overlay in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    overlay = octopia.Overlay.local(tree="a-b", clusters=2)
    asyncio.run_coroutine_threadsafe(overlay.start(), loop).result()
    try:
        yield overlay
    finally:
        asyncio.run_coroutine_threadsafe(overlay.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def main() -> None:
    """Publish and subscribe without a single ``await``."""
    with brokers() as overlay, octopia.connect_blocking(overlay.url("a.0")) as client:
        client.advertise("x >= 0")
        subscription = client.subscribe("x > 1")
        for x in range(5):
            client.publish({"x": x})
        print("first:", subscription.next(timeout=5)["x"])
        print("then:", [received["x"] for received in subscription.iterate(timeout=0.5)])


main()
