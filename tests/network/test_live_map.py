"""The live map in a browser, over twelve real brokers under load: what a click does is seen, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from http_port import http_beside
from load import Load
from raw_client import run
from rest import overlay_at_rest
from ticking import ticks

from octopia.addresses import Address
from octopia.experiments.local_overlay import at_free_addresses, running
from octopia.http.guard import Guard
from octopia.http.process import HttpProcess
from octopia.http.server import HttpServer, bind
from octopia.http.snapshot import Snapshot
from octopia.ids import BrokerId
from octopia.overlay.files import Overlay as OverlayFile
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Command
from octopia.runtime.local import Overlay
from octopia.runtime.process import Workers

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

SLOW = "b.3>b.0"
WAIT_MS = 60_000.0

FREE = 20
"""A rate that the link of the tests exceeds under load, unless it is limited to ten publications a second."""


@dataclasses.dataclass
class Shown:
    """The page, and every complaint of the browser."""

    page: playwright.Page
    complaints: list[str]

    async def lane(self, link: str, field: str) -> str:
        return await self.page.eval_on_selector(f'[data-link="{link}"]', f"each => each.dataset.{field}")

    async def click(self, link: str) -> None:
        """Click the middle of a lane with the mouse, at the point that a person would choose."""
        x, y = await self.page.eval_on_selector(
            f'g[data-link="{link}"] .base',
            """path => {
                const at = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
                return [at.x, at.y];
            }""",
        )
        await self.page.mouse.click(x, y)

    async def until(self, condition: str) -> None:
        """Wait until a condition holds in the page; ``lane`` returns the data of a lane."""
        lane = "const lane = (link) => document.querySelector(`g[data-link='${link}']`)?.dataset ?? {};"
        try:
            await self.page.wait_for_function(f"() => {{ {lane} return {condition}; }}", timeout=WAIT_MS, polling=200)
        except playwright.TimeoutError:
            lanes = await self.page.eval_on_selector_all("g[data-link]", "all => all.map(each => ({...each.dataset}))")
            told = await self.page.inner_text("#story")
            raise AssertionError(f"expected {condition}; the page says {told!r} and shows {lanes}") from None


@contextlib.asynccontextmanager
async def shown(address: object, **options: object) -> AsyncIterator[Shown]:
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context(viewport={"width": 1400, "height": 900}, **options)
        page, complaints = await context.new_page(), []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        try:
            await page.goto(f"http://{address}/")
            await page.wait_for_selector("#connection[data-state=live]", timeout=WAIT_MS)
            yield Shown(page, complaints)
        finally:
            await browser.close()


async def keep_publishing(load: Load) -> None:
    """Publish 120 times a second until cancelled; what a busy machine was late for is left out, not made up for."""
    async for _ in ticks(0.025):
        load.publish(3)


def under_load(test: Callable[[Overlay, Shown], Awaitable[None]], **options: object) -> None:
    """Run a test with a page on twelve brokers, of which b.3 publishes for all clusters; all deliveries must arrive."""

    async def scenario() -> None:
        async with Overlay.local("path:3", 4) as overlay, http_beside(overlay) as port:
            load = await Load.begin(overlay, ["b.3"], ["a.0", "b.0", "b.1", "b.2", "c.0", "c.3"])
            publishing = asyncio.create_task(keep_publishing(load))
            try:
                async with shown(port, **options) as page:
                    await test(overlay, page)
                    assert page.complaints == []
            finally:
                publishing.cancel()
            await overlay_at_rest(overlay, load.clients, 60.0)
            assert load.got == load.expected()
            load.leave()

    run(scenario())


def test_a_click_throttles_a_link_and_publications_go_around_it() -> None:
    async def test(overlay: Overlay, shown: Shown) -> None:
        page = shown.page
        await shown.until(f"lane('{SLOW}').rate > {FREE}")
        before = float(await shown.lane("b.3>b.1", "rerouted")) + float(await shown.lane("b.3>b.2", "rerouted"))
        await shown.click(SLOW)
        assert await page.eval_on_selector("#link", "each => each.dataset.link") == SLOW
        await page.fill("#link-rate", "10")
        await page.click("button[data-verb=throttle]")
        await page.wait_for_selector("#link-answer[data-ok=true]")
        await page.wait_for_selector("#events li[data-kind=throttled]", timeout=WAIT_MS)
        await shown.until(f"lane('{SLOW}').limit === '10' && lane('{SLOW}').rate < {FREE}")
        await shown.until(f"lane('b.3>b.1').rerouted * 1 + lane('b.3>b.2').rerouted * 1 > {before} + 30")
        await shown.until("['b.3>b.1', 'b.3>b.2'].some((link) => lane(link).state === 'rerouted')")
        words = "document.getElementById('story').dataset"
        await shown.until(
            f"{words}.congested.split(' ').includes('{SLOW}') && /b.3>b.[12]/.test({words}.carriers)"
            " && document.getElementById('story').textContent.includes('go around')"
        )
        text = await page.inner_text("#story")
        assert "b.3 → b.0" in text
        await page.click("button[data-verb=lift]")
        await page.wait_for_selector("#events li[data-kind=lifted]", timeout=WAIT_MS)
        await shown.until(f"lane('{SLOW}').limit === '' && lane('{SLOW}').rate > {FREE}")
        await shown.until(f"!{words}.congested.split(' ').includes('{SLOW}')")

    under_load(test)


def test_the_keyboard_alone_cuts_and_heals_a_link_and_changes_the_routing() -> None:
    async def test(overlay: Overlay, shown: Shown) -> None:
        page = shown.page
        await page.focus("#map g.lane[tabindex='0']")
        first = await page.evaluate("document.activeElement.dataset.link")
        await page.keyboard.press("ArrowRight")
        link = await page.evaluate("document.activeElement.dataset.link")
        assert link != first
        assert await page.locator("#map g.lane[tabindex='0']").count() == 1
        await page.keyboard.press("Enter")
        assert await page.eval_on_selector("#link", "each => each.dataset.link") == link
        assert await page.evaluate("document.activeElement.dataset.verb") == "throttle"
        await page.focus("button[data-verb=cut]")
        await page.keyboard.press("Enter")
        await shown.until(f"lane('{link}').state === 'down' && lane('{link}').cut === 'true'")
        assert "✕ cut" in (await page.text_content(f'[data-for="{link}"]') or "")
        await page.focus("button[data-verb=heal]")
        await page.keyboard.press("Enter")
        await shown.until(f"lane('{link}').state !== 'down'")
        await page.keyboard.press("Escape")
        assert await page.evaluate("document.activeElement.dataset.link") == link
        for algorithm in ("static", "dynamic", "adaptive"):
            await page.check(f"input[value={algorithm}]")
            await shown.until(f"document.getElementById('routing').dataset.now === '{algorithm}'")

    under_load(test, color_scheme="dark")


class StillSource:
    """The brokers of an overlay in which nothing happens, except that two links are congested and another is cut.

    One of the two is congested for half of the time and has no queue, so it does not count beside the other.
    """

    def __init__(self, overlay: OverlayFile):
        self.overlay = overlay
        self.brokers = tuple(map(str, overlay.scot.brokers))
        self._now_ms = 1e12

    async def snapshot(self) -> Snapshot:
        self._now_ms += 500.0
        return Snapshot(self._now_ms, {str(each): self._report(each) for each in self.overlay.scot.brokers}, {})

    def _report(self, broker: BrokerId) -> dict[str, Any]:
        neighbours = self.overlay.scot.neighbourhood(broker).neighbours
        counters = dict.fromkeys(("clients", "published", "delivered", "rerouted", "stranded"), 0)
        links = {str(peer): self._link(f"{broker}>{peer}") for peer in neighbours}
        how = {"routing": "adaptive", "algorithms": ["static", "dynamic", "adaptive"], "ready": True, "losses": {}}
        return {"id": str(broker), **counters, **how, "delays": {"counts": [], "sum_ms": 0.0}, "links": links}

    def _link(self, name: str) -> dict[str, Any]:
        is_cut, is_congested = name in ("H.1>H.2", "H.2>H.1"), name == "F.3>F.0"
        counters = {"sent": 0, "rerouted": 0, "dropped": 0, "queue": 12 * is_congested}
        congested_ms = (self._now_ms - 1e12) * (1.0 if is_congested else 0.5 if name == "F.1>F.2" else 0.0)
        how = {"up": not is_cut, "open": True, "cut": is_cut, "rate": 5.0 if is_congested else None, "delay_ms": None}
        return {**counters, **how, "congested_ms": congested_ms}

    async def ask(self, broker: str, command: Command) -> dict[str, Any]:
        raise AssertionError("expected no command")

    def close(self) -> None:
        pass


HIDDEN_LANES = """() => [...document.querySelectorAll('#map g.lane')].filter((lane) => {
    const path = lane.querySelector('.base'), length = path.getTotalLength();
    return ![...Array(19).keys()].some((index) => {
        const at = path.getPointAtLength(length * (index + 1) / 20).matrixTransform(path.getScreenCTM());
        return document.elementFromPoint(at.x, at.y)?.closest('g.lane') === lane;
    });
}).map((lane) => lane.dataset.link)"""
"""Returns the lanes that a click cannot reach anywhere on their curve: others cross them."""


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours such as ``rgb(1, 2, 3)``, as WCAG defines it."""

    def luminance(colour: str) -> float:
        shares = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_fifty_six_brokers_are_drawn(scheme: str) -> None:
    async def scenario() -> None:
        described = overlay_from_text("paper:se", None)
        server = HttpServer(StillSource(described), Guard("127.0.0.1"))
        try:
            address = await server.listen(bind(Address("127.0.0.1", 0)))
            async with shown(address, color_scheme=scheme) as page:
                await page.until("document.querySelectorAll('.broker[data-running=true]').length === 56")
                links = len(described.scot.alinks) + len(described.scot.ilinks)
                await page.until(f"document.querySelectorAll('#map g.lane').length === {2 * links}")
                await page.until("lane('F.3>F.0').state === 'congested' && lane('H.2>H.1').state === 'down'")
                congested = "#map g.lane[data-state=congested]"
                red = await page.page.eval_on_selector_all(congested, "all => all.map(each => each.dataset.link)")
                named = await page.page.eval_on_selector("#story", "each => each.dataset.congested")
                assert red == named.split() == ["F.3>F.0"]
                assert "queue 12" in (await page.page.text_content('[data-for="F.3>F.0"]') or "")
                story = await page.page.inner_text("#story")
                assert story == "H.1 ↔ H.2 is cut. F.3 → F.0 (queue 12) is congested. Publications wait for it."
                curves = await page.page.eval_on_selector_all(
                    "#map .base", "all => all.map((each) => each.getAttribute('d'))"
                )
                assert len(set(curves)) == 2 * links
                assert await page.page.evaluate(HIDDEN_LANES) == []
                ground = await page.page.eval_on_selector("body", "each => getComputedStyle(each).backgroundColor")
                assert (contrast(ground, "rgb(255, 255, 255)") > 15) == (scheme == "dark")
                fills = await page.page.eval_on_selector_all(
                    "#map .lane-label, #map text", "all => [...new Set(all.map((each) => getComputedStyle(each).fill))]"
                )
                assert len(fills) >= 3
                assert {fill: contrast(fill, ground) for fill in fills if contrast(fill, ground) < 4.5} == {}
                assert page.complaints == []
        finally:
            await server.close()

    run(scenario())


def test_a_whole_overlay_is_shown_by_a_process_of_its_own() -> None:
    overlay = at_free_addresses(overlay_from_text("path:2", 2))
    victim = overlay.scot.broker("b.1")
    port = HttpProcess(overlay, Address("127.0.0.1", 0), Guard("127.0.0.1"))

    async def scenario(workers: Workers) -> None:
        async with shown(port.address) as page:
            await page.until("document.querySelectorAll('.broker[data-running=true]').length === 4")
            await page.until("document.querySelectorAll('#map g.lane').length === 8")
            assert "region b" in (await page.page.text_content("#map") or "")
            workers.kill(victim)
            await page.until("document.querySelector('[data-broker=\"b.1\"]').dataset.running === 'false'")
            await page.until("document.getElementById('story').textContent.startsWith('b.1 is not running.')")
            assert page.complaints == []

    try:
        with running(overlay, 1, alone=[victim]) as workers:
            run(scenario(workers))
    finally:
        port.stop()
