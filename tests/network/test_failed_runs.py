"""Runs on real brokers that fail: nothing of them goes on."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from fake_broker import FakeBroker, keep_quiet
from octopia.addresses import Address
from octopia.content import parse_filter
from octopia.errors import NetworkError, RequestRefused
from octopia.protocol import MessageKind
from octopia.protocol.messages import Refused
from octopia.runtime.local import Overlay
from octopia.workloads import network_run
from octopia.workloads.workload import Issued
from support import at

OFFER = "x > 0"


def issued(client: str, broker: str) -> Issued:
    return Issued(client, client, at(broker), OFFER, parse_filter(OFFER))


def test_clients_that_wait_give_up_when_one_fails():
    async def run() -> None:
        async with FakeBroker("a.0") as quiet, FakeBroker("b.0") as strict:
            quiet.answer = keep_quiet
            addresses = {at("a.0"): Address("127.0.0.1", quiet.port), at("b.0"): Address("127.0.0.1", strict.port)}

            async def advertise(client: network_run.Client, each: Issued) -> None:
                if each.client == "strict":
                    await quiet.until(lambda: bool(quiet.received))  # The other one waits for its answer.
                await network_run._advertise(client, each)

            strict.answer = lambda request: [Refused(MessageKind.ADVERTISEMENT, request.handle, "no room")]
            others = asyncio.all_tasks()
            async with contextlib.AsyncExitStack() as stack:
                with pytest.raises(RequestRefused, match="no room"):
                    await network_run._enter(
                        stack, [issued("quiet", "a.0"), issued("strict", "b.0")], addresses, advertise
                    )
                left = list(map(repr, asyncio.all_tasks() - others))
                assert not [name for name in left if "_enter" in name]

    asyncio.run(run())


def test_neighbours_that_never_notice_a_death_end_the_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network_run, "NOTICE_S", 0.0)

    async def run() -> None:
        async with Overlay.local("path:2", 1) as overlay:
            addresses = {at("a.0"): overlay._servers[at("a.0")].address}
            with pytest.raises(NetworkError, match=r"a neighbour of b\.0 still has a link to it"):
                await network_run._noticed(addresses, at("b.0"))

    asyncio.run(run())
