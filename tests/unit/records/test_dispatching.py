"""Rows of an outbox on their way to a broker that forgets: what it has acknowledged is not sent again."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from fake_broker import Cut, FakeBroker, confirm
from octopia.content import Publication
from octopia.errors import DamagedData, RequestRefused
from octopia.protocol import MessageKind
from octopia.protocol.messages import ClientReply, ClientRequest, Produced, ProduceRequest, PublishRequest, Refused
from octopia.records import dispatching
from octopia.records import outgoing as outgoing_module
from octopia.records.dispatching import Dispatched, Dispatching, RefusedRow, dispatch
from octopia.records.files import write_whole
from octopia.records.outgoing import Manifest, Outgoing

ROWS = 20
PAYLOAD = bytes(30_000)
"""Few rows fit into the credit of a client, so that a chunk takes several turns."""


def produce(request: ClientRequest) -> Sequence[ClientReply]:
    """Answer like a broker that was just started."""
    return [Produced(request.producer, 0)] if isinstance(request, ProduceRequest) else confirm(request)


async def dispatched(broker: FakeBroker, folder: Path) -> Dispatched:
    outgoing = Outgoing(folder)
    rows = [Publication({"x": x}, PAYLOAD) for x in range(ROWS)]
    outgoing.commit("s", 0, [outgoing.stage("s", rows)])
    return await dispatch(broker.url, Dispatching(folder, until_empty=True), asyncio.Event())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "_AGAIN_S", 0.01)


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_a_broker_that_forgets_is_sent_again_only_what_it_has_not_acknowledged(tmp_path: Path, cut: Cut) -> None:
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = produce
            has_forgotten = False

            def forget_once() -> Cut:
                nonlocal has_forgotten
                if has_forgotten or len(broker.values()) < ROWS // 2:
                    return Cut.NEVER
                has_forgotten = True
                asyncio.get_running_loop().call_soon(broker.forget)
                return cut

            broker.cut_on_read = forget_once
            ended = await dispatched(broker, tmp_path / "outbox")
            assert has_forgotten
            assert (ended.published, ended.rows, ended.waiting) == (ROWS, ROWS, 0)
            assert 1 <= ended.uncertain <= ROWS // 2
            values = broker.values()
            assert sorted(set(values)) == list(range(ROWS))
            doubled = len(values) - ROWS
            assert (doubled == 0) if cut is Cut.BEFORE else (1 <= doubled <= ended.uncertain)
            producers = [each.producer for each in broker.of(ProduceRequest)]
            assert producers[0].endswith("-0")
            assert producers[-1].endswith("-1")

    asyncio.run(run())


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_program_that_died_together_with_its_broker_does_not_know_the_last_rows(tmp_path: Path, is_killed: bool):
    async def run() -> None:
        folder = tmp_path / "outbox"
        async with FakeBroker() as broker:
            broker.answer = produce
            assert (await dispatched(broker, folder)).uncertain == 0
            noted = folder / "publishing" / "published.json"
            published = msgspec.json.decode(noted.read_bytes())
            assert (published["row"], published["exact"]) == (ROWS, True)
            if is_killed:
                # As the note was while rows were on their way.
                noted.write_bytes(msgspec.json.encode({**published, "exact": False}))
            outgoing = Outgoing(folder)
            outgoing.commit("s", 1, [outgoing.stage("s", [Publication({"x": ROWS})])])
            ended = await dispatch(broker.url, Dispatching(folder, until_empty=True), asyncio.Event())
            assert (ended.published, ended.uncertain) == (ROWS + 1, 1 if is_killed else 0)
            assert broker.values() == list(range(ROWS + 1))

    asyncio.run(run())


def test_a_disk_that_fails_ends_dispatching_with_the_first_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    errors = iter([errno.ENOSPC, errno.EIO])

    def fail(path: Path, content: bytes) -> None:
        if b'"row":0' not in content or b'"exact":true' in content:
            number = next(errors)
            raise OSError(number, os.strerror(number))
        write_whole(path, content)

    async def run() -> None:
        folder = tmp_path / "outbox"
        async with FakeBroker() as broker:
            broker.answer = produce
            with monkeypatch.context() as patched:
                patched.setattr(dispatching, "write_whole", fail)
                with pytest.raises(OSError, match="No space left on device"):
                    await dispatched(broker, folder)
            # Rows were accepted and could not be noted, so that the next call does not know which.
            assert not msgspec.json.decode((folder / "publishing" / "published.json").read_bytes())["exact"]
            ended = await dispatch(broker.url, Dispatching(folder, until_empty=True), asyncio.Event())
            assert ended.published == ROWS

    asyncio.run(run())


def test_a_folder_that_cannot_be_read_is_left_to_others(tmp_path: Path) -> None:
    async def run() -> None:
        Outgoing(tmp_path)
        noted = tmp_path / "publishing" / "published.json"
        noted.parent.mkdir()
        noted.write_bytes(b"?")
        for _ in range(2):  # The first call must not keep the lock.
            with pytest.raises(DamagedData, match="expected a number of rows") as caught:
                await dispatch("octopia://127.0.0.1:1", Dispatching(tmp_path), asyncio.Event())
            assert caught.value.__traceback__ is not None

    asyncio.run(run())


def test_waiting_counts_the_rows_of_all_batches(tmp_path: Path) -> None:
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = produce
            outgoing = Outgoing(tmp_path)
            for batch in range(2):
                rows = [Publication({"x": batch}), Publication({"x": batch})]
                outgoing.commit("s", batch, [outgoing.stage("s", rows)])
            waiting: list[int] = []
            wanted = Dispatching(tmp_path, until_empty=True)
            await dispatch(broker.url, wanted, asyncio.Event(), lambda state: waiting.append(state.waiting))
            assert waiting == [2, 0]

    asyncio.run(run())


def test_an_idle_outbox_only_lists_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        polls, reads = 0, 0
        is_idle, read_manifest, stop = asyncio.Event(), outgoing_module._read_manifest, asyncio.Event()

        def look(outgoing: Outgoing, row: int) -> bool:
            nonlocal polls
            polls += 1
            if polls == 5:
                is_idle.set()
            return has_batch_from(outgoing, row)

        def read(path: Path) -> Manifest | None:
            nonlocal reads
            reads += polls > 0
            return read_manifest(path)

        has_batch_from = Outgoing.has_batch_from
        monkeypatch.setattr(dispatching, "POLL_S", 0.001)
        monkeypatch.setattr(Outgoing, "has_batch_from", look)
        monkeypatch.setattr(outgoing_module, "_read_manifest", read)
        async with FakeBroker() as broker:
            broker.answer = produce
            outgoing = Outgoing(tmp_path)
            outgoing.commit("s", 0, [outgoing.stage("s", [Publication({"x": 0})])])
            running = asyncio.create_task(dispatch(broker.url, Dispatching(tmp_path), stop))
            await is_idle.wait()
            assert reads == 0
            outgoing.commit("s", 1, [outgoing.stage("s", [Publication({"x": 1})])])
            await broker.until(lambda: broker.values() == [0, 1])
            stop.set()
            assert (await running).published == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("had", "waiting", "is_damaged"),
    [
        (ROWS, 1, False),
        (ROWS + 1, 1, False),  # It was killed before it noted the last row.
        (ROWS + 2, 1, True),
        (ROWS + dispatching.CHUNK, dispatching.CHUNK + 1, False),
        (ROWS + dispatching.CHUNK + 1, dispatching.CHUNK + 1, True),
    ],
)
def test_a_broker_that_has_received_more_than_the_outbox_had_is_told(
    tmp_path: Path, had: int, waiting: int, is_damaged: bool
) -> None:
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = produce
            await dispatched(broker, tmp_path)
            outgoing = Outgoing(tmp_path)
            outgoing.commit("s", 1, [outgoing.stage("s", [Publication({"x": ROWS})] * waiting)])
            # The same session goes on, as after a crash of the command.
            noted = tmp_path / "publishing" / "published.json"
            published = msgspec.json.decode(noted.read_bytes())
            broker.answer = lambda each: (
                [Produced(each.producer, had)] if isinstance(each, ProduceRequest) else confirm(each)
            )
            noted.write_bytes(msgspec.json.encode({**published, "broker": "", "incarnation": 0}))
            work = dispatch(broker.url, Dispatching(tmp_path, until_empty=True), asyncio.Event())
            if is_damaged:
                with pytest.raises(DamagedData, match=rf"expected a broker that has .* rows of .*, got {had:,}: the"):
                    await work
            else:
                assert (await work).rows == ROWS + waiting - had

    asyncio.run(run())


def test_refused_rows_that_the_advertisement_does_not_explain_are_kept_with_those_after_them(tmp_path: Path) -> None:
    def refuse(request: ClientRequest) -> Sequence[ClientReply]:
        if isinstance(request, PublishRequest) and request.publication.attributes["x"] in (3, 17):
            return [Refused(MessageKind.PUBLICATION, request.sequence, "it is too cold")]
        return produce(request)

    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = refuse
            states: list[Dispatched] = []
            outgoing, wanted = Outgoing(tmp_path), Dispatching(tmp_path, until_empty=True)
            outgoing.commit("s", 0, [outgoing.stage("s", [Publication({"x": x}, b"p") for x in range(ROWS)])])
            with pytest.raises(
                RequestRefused, match="got 2 refused: the broker refused a publication: it is too cold;"
            ):
                await dispatch(broker.url, wanted, asyncio.Event(), states.append)
            assert (states[-1].rows, states[-1].published, states[-1].refused) == (ROWS - 2, ROWS, 2)
            lines = (tmp_path / "refused.jsonl").read_bytes().splitlines()
            kept = [msgspec.json.decode(each, type=RefusedRow) for each in lines]
            assert [(each.row, each.attributes["x"]) for each in kept] == [(row, row) for row in range(3, ROWS)]
            assert {(each.certain, each.payload) for each in kept} == {(False, b"p")}

    asyncio.run(run())
