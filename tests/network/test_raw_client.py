"""The client of these tests: it retries when a broker is busy, and fails at once when it is refused."""

from __future__ import annotations

import pytest
from raw_client import RawClient, run

from octopia.protocol import CloseCode
from octopia.runtime.lag import LagGate
from octopia.runtime.local import Overlay


def test_it_comes_back_to_a_busy_broker(monkeypatch: pytest.MonkeyPatch):
    delays_ms = [5, 5, 0]
    monkeypatch.setattr(LagGate, "retry_ms", lambda _: delays_ms.pop(0))

    async def main() -> None:
        async with Overlay.local("path:2", 1) as overlay:
            client = await RawClient("late").connect(overlay.url("a.0"))
            assert client.session.is_up
            assert delays_ms == []

    run(main())


def test_a_refusal_is_not_waited_out():
    async def main() -> None:
        async with Overlay.local("path:2", 1) as overlay:
            await RawClient("twin").connect(overlay.url("a.0"))
            with pytest.raises(AssertionError, match=r"twin is not admitted by .*name_taken"):
                await RawClient("twin").connect(overlay.url("a.0"))
            assert await RawClient("twin").be_refused(overlay.url("a.0")) is CloseCode.NAME_TAKEN
            with pytest.raises(AssertionError, match=r"expected .* to refuse other"):
                await RawClient("other").be_refused(overlay.url("a.0"))

    run(main())


def test_a_lost_connection_is_not_waited_out():
    async def main() -> None:
        async with Overlay.local("path:2", 1) as overlay:
            client = await RawClient("lost").connect(overlay.url("a.0"))
            client.cut()
            with pytest.raises(AssertionError, match="the connection of lost ended before the confirmation of x > 0"):
                await client.subscribe("x > 0")

    run(main())
