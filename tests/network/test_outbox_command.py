"""The outbox as a process: killed, it publishes each row once; a broker that dies loses none."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import random
from pathlib import Path

import pytest
from recorders import kill, nobody_is_left_behind, start_command, until
from secured import Secured

import octopia
from octopia.cli.outbox import _line
from octopia.content import Publication, parse_filter
from octopia.errors import RequestRefused, UsageError
from octopia.records.dispatching import CHUNK, Dispatched, Dispatching, dispatch
from octopia.records.outgoing import Outgoing
from octopia.records.replaying import AS_FAST_AS_POSSIBLE, Replaying, replay
from records_samples import add_to_spool, numbered, received

__all__ = ["nobody_is_left_behind"]


async def start(url: str, folder: Path, *options: str) -> asyncio.subprocess.Process:
    return await start_command(b"publishing", "outbox", str(folder), "--url", url, *options)


def fill(folder: Path, start: int, end: int, batch: int) -> None:
    outgoing = Outgoing(folder)
    rows = [Publication({"n": n, "even" if n % 2 == 0 else "odd": True}) for n in range(start, end)]
    outgoing.commit("s", batch, [outgoing.stage("s", rows)])


async def killed_under_load(folder: Path, kills: int, rows: int, seed: int) -> None:
    chance = random.Random(seed)
    async with octopia.Overlay.local("path:2", 2) as overlay, overlay.connect("a.0") as subscriber:
        subscription = await subscriber.subscribe("n >= 0", buffer=10**6)
        received: list[object] = []

        async def receive() -> None:
            async for batch in subscription.batches():
                received.extend(publication["n"] for publication in batch)

        receiving = asyncio.create_task(receive())
        url, batches = overlay.url("b.1"), 10 * (kills + 1)
        for batch in range(batches):
            fill(folder, rows * batch // batches, rows * (batch + 1) // batches, batch)
        process = await start(url, folder)
        for number in range(1, kills + 1):
            target = rows * number // (kills + 1) - chance.randrange(rows // batches)
            await until(lambda target=target: len(received) >= target)
            await kill(process)
            process = await start(url, folder)
        await until(lambda: len(received) >= rows)
        process.terminate()
        await process.communicate()
        # Nothing is left, and nothing comes twice.
        last = await start(url, folder, "--until-empty")
        out, _ = await last.communicate()
        assert json.loads(out) == dataclasses.asdict(Dispatched(published=rows))
        receiving.cancel()
    assert received == list(range(rows))
    # The broker told how far it came each time; nothing was begun again.
    assert json.loads((folder / "publishing" / "published.json").read_text())["generation"] == 0
    assert list((folder / "staged").iterdir()) == []


def test_an_outbox_that_is_killed_publishes_each_row_once(tmp_path: Path) -> None:
    asyncio.run(killed_under_load(tmp_path / "outbox", kills=1, rows=10_000, seed=1))


@pytest.mark.soak
def test_an_outbox_that_is_killed_very_often(tmp_path: Path) -> None:
    asyncio.run(killed_under_load(tmp_path / "outbox", kills=30, rows=300_000, seed=2))


async def broker_killed_under_load(folder: Path, kills: int, rows: int, seed: int) -> None:
    """Crash and restart the host broker at random rows: what comes twice was counted, and what is missing was told."""
    chance = random.Random(seed)
    async with octopia.Overlay.local("path:2", 1) as overlay, overlay.connect("a.0") as subscriber:
        subscription = await subscriber.subscribe("n >= 0", buffer=10**6)
        received: list[int] = []

        async def receive() -> None:
            async for batch in subscription.batches():
                received.extend(int(publication["n"]) for publication in batch)

        receiving = asyncio.create_task(receive())
        fill(folder, 0, rows, 0)
        state = Dispatched()

        def note(now: Dispatched) -> None:
            state.published, state.uncertain = now.published, now.uncertain

        stop = asyncio.Event()
        running = asyncio.create_task(dispatch(overlay.url("b.0"), Dispatching(folder, timeout_s=60.0), stop, note))
        for number in range(1, kills + 1):
            target = rows * number // (kills + 1) - chance.randrange(rows // (kills + 1))
            await until(lambda target=target: state.published >= target)
            overlay.crash("b.0")
            await overlay.restart("b.0")
        await until(lambda: state.published == rows and bool(received) and received[-1] == rows - 1)
        stop.set()
        ended = await running
        receiving.cancel()
        assert subscription.gaps >= 1
    doubled = len(received) - len(set(received))
    assert doubled <= ended.uncertain <= kills * CHUNK
    # Rows are published from where the broker's acceptance was noted: it steps back by no more than what was counted.
    steps_back = sum(max(0, before - after + 1) for before, after in itertools.pairwise(received))
    assert steps_back <= ended.uncertain


def test_a_broker_that_dies_under_load_gets_again_only_what_it_did_not_acknowledge(
    tmp_path: Path, never_busy: None
) -> None:
    asyncio.run(broker_killed_under_load(tmp_path / "outbox", kills=2, rows=12_000, seed=3))


@pytest.mark.soak
def test_a_broker_that_dies_very_often_under_load(tmp_path: Path, never_busy: None) -> None:
    asyncio.run(broker_killed_under_load(tmp_path / "outbox", kills=20, rows=200_000, seed=4))


def test_a_broker_that_dies_loses_no_row_and_rows_stay_at_their_broker(tmp_path: Path, never_busy: None) -> None:
    async def run() -> None:
        folder = tmp_path / "outbox"
        async with octopia.Overlay.local("path:2", 1) as overlay, overlay.connect("a.0") as subscriber:
            subscription = await subscriber.subscribe("n >= 0", buffer=10**6)
            fill(folder, 0, 10, 0)
            stop = asyncio.Event()
            running = asyncio.create_task(dispatch(overlay.url("b.0"), Dispatching(folder, timeout_s=60.0), stop))
            assert [(await subscription.next(timeout=30))["n"] for _ in range(10)] == list(range(10))
            overlay.crash("b.0")
            fill(folder, 10, 20, 1)
            await overlay.restart("b.0")
            found = set()
            while len(found) < 10:
                found.add((await subscription.next(timeout=30))["n"])
            assert found == set(range(10, 20))
            stop.set()
            assert (await running).published == 20
            with pytest.raises(UsageError, match=r"expected the broker b\.0, .*, got a\.0: connect to b\.0"):
                await dispatch(overlay.url("a.0"), Dispatching(folder), asyncio.Event())
            fill(folder, 20, 21, 2)
            moved = Dispatching(folder, until_empty=True, moves=True)
            assert (await dispatch(overlay.url("a.0"), moved, asyncio.Event())).rows == 1

    asyncio.run(run())


def test_a_token_with_a_filter_publishes_with_an_advertisement_of_that_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        folder, spool = tmp_path / "outbox", tmp_path / "spool"
        secured = Secured(tmp_path, "path:1", 1, has_tokens=True)
        monkeypatch.setenv("OCTOPIA_CA", str(secured.ca))
        monkeypatch.setenv("OCTOPIA_TOKEN", secured.add_token("sink", advertise="n >= 0", read="n >= 0"))
        fill(folder, 0, 3, 0)
        add_to_spool(spool, numbered(received(3), received(4)))
        async with secured.run() as overlay, overlay.connect("a.0") as client:
            url = overlay.url("a.0")
            subscription = await client.subscribe("n >= 0")
            with pytest.raises(RequestRefused, match=r"may advertise only .*: name what to advertise with --advertise"):
                await dispatch(url, Dispatching(folder, until_empty=True), asyncio.Event())
            offer = "n >= 0 AND even IS NOT NULL AND odd IS NOT NULL"
            process = await start(url, folder, "--until-empty", "--advertise", offer)
            out, _ = await process.communicate()
            assert json.loads(out)["rows"] == 3
            with pytest.raises(RequestRefused, match="name what to advertise with --advertise"):
                await replay(client, Replaying(spool, speed=AS_FAST_AS_POSSIBLE), asyncio.Event())
            wanted = Replaying(spool, speed=AS_FAST_AS_POSSIBLE, offer=parse_filter("n >= 0"))
            assert (await replay(client, wanted, asyncio.Event())).rows == 2
            assert [(await subscription.next(timeout=30))["n"] for _ in range(5)] == list(range(5))

    asyncio.run(run())


def test_refused_rows_are_kept_with_the_reason(tmp_path: Path) -> None:
    async def run() -> None:
        async with octopia.Overlay.local("path:1", 1) as overlay, overlay.connect("a.0") as subscriber:
            subscription = await subscriber.subscribe("n >= 0")
            fill(tmp_path, 0, 6, 0)
            options = ("--until-empty", "--advertise", "n > 0 AND even IS NOT NULL AND odd IS NOT NULL OR n < 0")
            process = await start(overlay.url("a.0"), tmp_path, *options)
            out, errors = await process.communicate()
            assert process.returncode == 2
            said = json.loads(out)
            assert (said["rows"], said["published"], said["waiting"], said["refused"]) == (5, 6, 0, 1)
            assert b"got 1 refused: the broker refused a publication" in errors
            assert said["reason"] in errors.decode()
            # The next rows follow, and several refused ones are found by the filter.
            fill(tmp_path, 6, 10, 1)
            wanted = Dispatching(tmp_path, until_empty=True, offer=parse_filter("even IS NOT NULL AND n >= 0"))
            with pytest.raises(RequestRefused, match=r"got 2 refused: .*; start again to publish the rows after them"):
                await dispatch(overlay.url("a.0"), wanted, asyncio.Event())
            kept = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
            assert [(each["row"], each["certain"]) for each in kept] == [(0, True), (7, True), (9, True)]
            assert kept[1]["attributes"] == {"n": 7, "odd": True}
            ended = await dispatch(overlay.url("a.0"), wanted, asyncio.Event())
            assert (ended.rows, ended.published, ended.refused) == (0, 10, 0)
            assert [(await subscription.next(timeout=30))["n"] for _ in range(7)] == [1, 2, 3, 4, 5, 6, 8]

    asyncio.run(run())


def test_the_line_of_the_command_has_repeated_and_refused_rows() -> None:
    assert _line(Dispatched(rows=5, published=9)) == "5 rows published, 9 in total"
    state = Dispatched(rows=5, published=9, repeated=2, uncertain=3, refused=1, reason="it is too cold")
    assert _line(state) == (
        "5 rows published, 9 in total; the broker dropped 2 of them as repeated; 3 may be published twice, since a "
        "broker was lost; refused: 1 (it is too cold)"
    )
