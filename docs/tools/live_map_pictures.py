"""Takes the pictures of the live map, of twelve brokers and of 56, on a machine that has nothing else to do.

    python docs/tools/live_map_pictures.py            # into docs/images

It needs playwright and Chromium. It waits until no link but the throttled one is congested. Look at the pictures.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.async_api import async_playwright

import octopia
from octopia.addresses import Address
from octopia.experiments.local_overlay import at_free_addresses, running, urls_of
from octopia.http.guard import Guard
from octopia.http.process import HttpProcess, page_of
from octopia.overlay.files import Overlay, overlay_from_text

IMAGES = Path(__file__).parents[1] / "images"
SETTLE_S, BEAT_S, READY_S, ALONE_S = 10.0, 0.05, 60.0, 120.0


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture: an overlay, its publishers with their rates, and what is done to links before it is taken."""

    file: str
    tree: str
    clusters: int | None
    rates: dict[str, float]
    throttled: tuple[str, int]
    cut: str
    size: tuple[int, int]
    scheme: str


PICTURES = [
    Picture(
        "live-map.png",
        "path:3",
        4,
        {"b.3": 160.0, "a.0": 6.0, "b.1": 6.0, "c.2": 6.0},
        ("b.3>b.0", 20),
        "",
        (1500, 860),
        "light",
    ),
    Picture("live-map-56.png", "paper:se", None, {"F.3": 12.0}, ("F.3>F.0", 2), "H.1>H.2", (1600, 1130), "dark"),
]


async def publish(overlay: Overlay, rates: dict[str, float]) -> None:
    """Subscribe at all brokers, and publish until cancelled."""
    urls = dict(zip(map(str, overlay.scot.brokers), urls_of(overlay), strict=True))
    async with contextlib.AsyncExitStack() as stack:
        for url in urls.values():
            client = await stack.enter_async_context(octopia.connect(url, timeout=READY_S))
            await client.subscribe("n >= 0", callback=lambda _: None, timeout=READY_S)
        publishers = {name: await stack.enter_async_context(octopia.connect(urls[name])) for name in rates}
        for client in publishers.values():
            await client.advertise("n >= 0", timeout=READY_S)
        await asyncio.gather(*(publish_at(client, rates[name]) for name, client in publishers.items()))


async def publish_at(client: octopia.Client, rate: float) -> None:
    """Publish at a rate, without waiting for answers."""
    loop = asyncio.get_running_loop()
    begin_s, done, calls = loop.time(), 0, set[asyncio.Task[int]]()
    while True:
        due = int((loop.time() - begin_s) * rate)
        call = asyncio.ensure_future(client.publish_many([{"n": n} for n in range(done, due)]))
        calls.add(call)
        call.add_done_callback(calls.discard)
        done = due
        await asyncio.sleep(BEAT_S)


async def take(picture: Picture, page_url: str) -> None:
    """Open the page, throttle and cut links as a person does, and take the picture."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        width, height = picture.size
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=picture.scheme,  # type: ignore[arg-type]
        )
        page = await context.new_page()
        await page.goto(page_url)
        await page.wait_for_selector("#connection[data-state=live]")
        await asyncio.sleep(SETTLE_S)
        link, rate = picture.throttled
        await page.dispatch_event(f'[data-link="{link}"]', "click")
        await page.fill("#link-rate", str(rate))
        await page.click("button[data-verb=throttle]")
        if picture.cut:
            await page.dispatch_event(f'[data-link="{picture.cut}"]', "click")
            await page.click("button[data-verb=cut]")
        await asyncio.sleep(BEAT_S)
        await page.keyboard.press("Escape")
        await asyncio.sleep(SETTLE_S)
        # On a busy machine, other links are congested now and then.
        is_alone = f"document.getElementById('story').dataset.congested === '{link}'"
        await page.wait_for_function(is_alone, timeout=ALONE_S * 1000.0)
        sys.stdout.write(f"{picture.file}: {await page.inner_text('#story')}\n")
        await page.screenshot(path=IMAGES / picture.file)
        await browser.close()


@contextlib.contextmanager
def shown(overlay: Overlay) -> Iterator[str]:
    """Run an overlay and its live map, and yield the URL of the page."""
    guard = Guard("127.0.0.1")
    port = HttpProcess(overlay, Address("127.0.0.1", 0), guard)
    try:
        with running(overlay, 2):
            yield page_of(port.address, guard)
    finally:
        port.stop()


async def main() -> None:
    """Take all pictures."""
    for picture in PICTURES:
        overlay = at_free_addresses(overlay_from_text(picture.tree, picture.clusters))
        with shown(overlay) as page_url:
            publishing = asyncio.create_task(publish(overlay, picture.rates))
            await take(picture, page_url)
            publishing.cancel()


if __name__ == "__main__":
    asyncio.run(main())
