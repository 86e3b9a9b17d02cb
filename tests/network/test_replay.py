"""Replay: the same publications in the same order, with the spacing that the speed leaves."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import octopia
from octopia.protocol import Cause
from octopia.protocol.messages import Gap
from octopia.records.replaying import AS_FAST_AS_POSSIBLE, Replayed, Replaying, replay
from octopia.records.selection import Question
from records_samples import MORNING_MS, add_to_archive, add_to_spool, numbered, received


async def played(
    folder: Path, wanted: Replaying, count: int, on_progress: Callable[[Replayed], object] = lambda _: None
) -> tuple[list[octopia.Received], Replayed]:
    async with (
        octopia.Overlay.local("path:2", 1) as overlay,
        overlay.connect("a.0") as subscriber,
        overlay.connect("b.0") as publisher,
    ):
        subscription = await subscriber.subscribe("n >= 0", buffer=10**6)
        state = await replay(publisher, wanted, asyncio.Event(), on_progress)
        return [await subscription.next(timeout=30) for _ in range(count)], state


def test_everything_comes_again_in_its_order(tmp_path: Path):
    rows = [received(n, {"n": n, "even" if n % 2 else "odd": "x"}, payload=bytes([n % 256])) for n in range(3000)]
    add_to_archive(tmp_path, [*numbered(*rows[:2500]), (10**6, Gap(Cause.NEW_SESSION, 0))])
    add_to_archive(tmp_path, numbered(*rows[2500:]), is_rolled=False)
    seen: list[int] = []
    wanted = Replaying(tmp_path, speed=AS_FAST_AS_POSSIBLE)
    found, state = asyncio.run(played(tmp_path, wanted, 3000, lambda progress: seen.append(progress.rows)))
    assert seen == [1000, 2000, 2500, 3000], "progress is shown after each chunk, not after each file"
    assert [each.publication for each in found] == [each.publication for each in rows]
    assert (state.rows, state.notices, state.late_ms_max) == (3000, 1, 0.0)


def test_the_spacing_is_that_of_the_publications_divided_by_the_speed(tmp_path: Path):
    # The third one is late: it follows at once, and delays nobody.
    times_ms = [0.0, 2000.0, 500.0, 6000.0, 6001.0]
    rows = [received(n, published_ms=MORNING_MS + at_ms) for n, at_ms in enumerate(times_ms)]
    add_to_spool(tmp_path, numbered(*rows))
    found, state = asyncio.run(played(tmp_path, Replaying(tmp_path, speed=10.0), 5))
    assert [each["n"] for each in found] == [0, 1, 2, 3, 4]
    since_ms = [each.published_ms - found[0].published_ms for each in found]
    assert since_ms[1] >= 190.0
    assert since_ms[2] - since_ms[1] < since_ms[3] - since_ms[2]
    assert since_ms[3] >= 590.0
    assert state.seconds >= 0.59


def test_a_question_and_a_count_limit_the_replay(tmp_path: Path):
    add_to_spool(tmp_path, numbered(*map(received, range(100))))
    wanted = Replaying(tmp_path, Question("n >= 10", to_ms=MORNING_MS + 50), AS_FAST_AS_POSSIBLE, count=7)
    found, _ = asyncio.run(played(tmp_path, wanted, 7))
    assert [each["n"] for each in found] == list(range(10, 17))


def test_the_command_replays(tmp_path: Path):
    async def run() -> None:
        add_to_spool(tmp_path, numbered(*map(received, range(10))))
        async with octopia.Overlay.local("path:2", 1) as overlay, overlay.connect("a.0") as subscriber:
            subscription = await subscriber.subscribe("n >= 0")
            command = [sys.executable, "-m", "octopia", "replay", str(tmp_path), "--filter", "n > 3", "--json"]
            command += ["--advertise", "n > 3"]
            process = await asyncio.create_subprocess_exec(
                *command, "--url", overlay.url("b.0"), "--as-fast-as-possible", stdout=asyncio.subprocess.PIPE
            )
            out, _ = await process.communicate()
            assert json.loads(out)["rows"] == 6
            assert [(await subscription.next(timeout=30))["n"] for _ in range(6)] == list(range(4, 10))

    asyncio.run(run())
