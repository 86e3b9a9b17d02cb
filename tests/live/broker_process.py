"""One broker in a process of its own, for tests: it tells what happens in lines of JSON, and answers to lines.

Usage: broker_process.py OVERLAY BROKER [WATCHED…] [options]

It says ``ready`` when it takes publications, ``fenced`` when a newer broker has its name, and ``congested`` when Eq. 3
finds a link to one of the brokers WATCHED congested. The lines ``status`` and ``rest`` are answered; at the end of its
input it stops.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import dataclasses
import fcntl
import json
import logging
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from rest import unrest

from octopia.broker.queues import LinkStatus
from octopia.ids import BrokerId
from octopia.overlay.files import load_overlay
from octopia.protocol import Cause
from octopia.runtime import server as server_module
from octopia.runtime.defaults import default_settings
from octopia.runtime.server import BrokerServer


class Watch:
    """Looks at one link whenever something has happened at its broker."""

    def __init__(self, link: BrokerId):
        self._link = link
        self.name = str(link)
        self.waiting_since_ms: float | None = None
        self.seen_after_ms: float | None = None
        self.queue_length_max = 0
        self.unsent_max = 0
        self.verdicts = 0

    def look(self, node: BrokerServer) -> None:
        """Note how long the queue is, what Eq. 3 says, and how much the kernel holds."""
        now_ms = node.now_ms()
        status: LinkStatus = node.broker.link_status_table(now_ms)[self._link]
        connection = node.lines[self._link].connection
        if connection is None or not node.node.links[self._link].is_up:
            return
        self.unsent_max = max(self.unsent_max, _unsent_bytes(connection))
        self.queue_length_max = max(self.queue_length_max, status.queue_length)
        if not status.queue_length:
            self.waiting_since_ms = None
        elif self.waiting_since_ms is None:
            self.waiting_since_ms = now_ms
        if status.congested:
            self.verdicts += 1
            if self.seen_after_ms is None:
                assert self.waiting_since_ms is not None
                self.seen_after_ms = now_ms - self.waiting_since_ms
                say(event="congested", link=self.name, after_ms=self.seen_after_ms, queue_length=status.queue_length)


def _unsent_bytes(connection: object) -> int:
    """Return what lies below the broker: in this process, and in the kernel until the other end has acknowledged it."""
    transport = connection._transport
    held = array.array("i", [0])
    fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
    return held[0] + transport.get_write_buffer_size()


def say(**facts: object) -> None:
    """Tell something to whoever started this process."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def status_of(node: BrokerServer, watches: Sequence[Watch]) -> dict[str, object]:
    """Describe a node."""
    counters, links = node.broker.counters, node.node.links.values()
    return {
        "unrest": unrest(node),
        "cases": {case.value: count for case, count in counters.cases.items()},
        "dropped": counters.lost[Cause.LINK_DOWN] + sum(link.session.dropped_unacknowledged for link in links),
        "prt": sorted(map(repr, (entry.id for entry in node.broker.state.prt))),
        "clt": sorted(map(repr, (entry.id for entry in node.broker.state.clt))),
        "watched": {
            watch.name: {
                "seen_after_ms": watch.seen_after_ms,
                "verdicts": watch.verdicts,
                "queue_length_max": watch.queue_length_max,
                "unsent_max": watch.unsent_max,
            }
            for watch in watches
        },
    }


def holds(node: BrokerServer, condition: str) -> bool:
    """Return whether a condition holds: ``at-rest``, ``down LINK``, or ``overdue LINK`` (down for too long)."""
    what, _, link = condition.partition(" ")
    if what == "at-rest":
        return not unrest(node)
    peer = BrokerId.parse(link)
    return peer in node.broker.state.overdue if what == "overdue" else not node.node.links[peer].is_up


def arguments() -> argparse.Namespace:
    """Return the arguments of this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("overlay", type=Path)
    parser.add_argument("broker")
    parser.add_argument("watched", nargs="*")
    parser.add_argument("--down-limit-ms", type=float, help="how long publications wait for a link that is down")
    parser.add_argument("--clock-back-ms", type=int, default=0, help="how far the clock is set back")
    parser.add_argument("--starting-s", type=float, help="the age up to which a fenced broker starts again")
    return parser.parse_args()


async def main(wanted: argparse.Namespace) -> None:
    overlay = load_overlay(wanted.overlay)
    watches = [Watch(overlay.scot.broker(each)) for each in wanted.watched]
    settings = default_settings(overlay)
    if wanted.down_limit_ms is not None:
        settings = dataclasses.replace(settings, down_limit_ms=wanted.down_limit_ms)
    if wanted.starting_s is not None:
        server_module.STARTING_S = wanted.starting_s
    first_incarnation = server_module.new_incarnation
    server_module.new_incarnation = lambda: first_incarnation() - wanted.clock_back_ms
    said: set[str] = set()
    awaited: list[str] = []

    def say_once(event: str) -> None:
        if event not in said:
            said.add(event)
            say(event=event)

    def observe(node: BrokerServer) -> None:
        if node.is_connected and node.broker.accepts_data:
            say_once("ready")
        if node.fenced:
            say_once("fenced")
        for watch in watches:
            watch.look(node)
        for condition in [each for each in awaited if holds(node, each)]:
            awaited.remove(condition)
            say(event=condition)

    node = BrokerServer(overlay, overlay.scot.broker(wanted.broker), settings, observe=observe)
    await node.listen()
    node.start()
    say(event="listening", incarnation=node.incarnation)
    async for line in lines_of_stdin():
        if line == "status":
            say(event="status", **status_of(node, watches))
        elif line == "rest":
            say(event="rest", unrest=unrest(node), is_fenced=bool(node.fenced))
        elif line.startswith("when "):
            awaited.append(line.removeprefix("when "))
            observe(node)
    await node.stop()


async def lines_of_stdin():
    """Yield the lines that this process is told."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        yield line.decode().strip()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    asyncio.run(main(arguments()))
