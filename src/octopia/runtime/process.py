"""Processes that run brokers: one process for some brokers, or a parent with several workers for a whole overlay.

The parent imports everything and then forks its workers, so they start at once. It receives reports about their
brokers, restarts workers that die, and lets all of them drain when it is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from typing import Any

from octopia.broker import BrokerSettings
from octopia.errors import OctopiaError, Unavailable
from octopia.ids import BrokerId
from octopia.overlay.files import Overlay
from octopia.runtime.operating import is_connected, report_on
from octopia.runtime.server import NODE_SETTINGS, BrokerServer, all_at_rest, memory_budget
from octopia.transport.loop import run_loop

log = logging.getLogger("octopia")

REPORT_S = 0.5
"""The interval of a worker's reports."""
DRAIN_S = 10.0
"""The time limit for brokers to drain."""
STOP_S = 15.0
"""The time limit for a worker to drain and stop."""
RESTARTS_MAX = 5
"""The maximum number of restarts of a worker that dies."""


async def run_brokers(
    overlay: Overlay,
    brokers: Sequence[BrokerId],
    *,
    settings: BrokerSettings | None = None,
    on_listening: Callable[[], None] | None = None,
    on_reports: Callable[[list[dict[str, Any]]], None] | None = None,
    stop: asyncio.Event | None = None,
    together: Sequence[BrokerId] | None = None,
) -> int:
    """Run some brokers of an overlay until this process gets SIGTERM or SIGINT; then drain.

    Return the number of publications that could not be passed on in time.

    ``together`` names all brokers that are stopped at the same time, by default those of this process.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node_settings = dataclasses.replace(NODE_SETTINGS, memory_bytes=memory_budget(len(brokers)))
    servers = [BrokerServer(overlay, broker, settings, node_settings) for broker in brokers]
    try:
        for server in servers:
            await server.listen()
        if on_listening is not None:
            on_listening()
        for server in servers:
            server.start()
        while not stop.is_set():
            for server in servers:
                if server.fenced:
                    raise Unavailable(server.fenced)
            if on_reports is not None:
                on_reports([report_on(server) for server in servers])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), REPORT_S)
        for server in servers:
            server.begin_to_drain(brokers if together is None else together)
        await all_at_rest(servers, DRAIN_S)
        return sum(server.left_behind for server in servers)
    finally:
        await asyncio.gather(*(server.stop() for server in servers))


@dataclasses.dataclass(slots=True)
class _Worker:
    """A process of the overlay, and its last reports."""

    brokers: list[BrokerId]
    process: multiprocessing.process.BaseProcess
    pipe: Pipe
    reports: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    restarts: int = 0
    left: int = 0
    problem: str = ""


class Workers:
    """All brokers of an overlay in several processes."""

    def __init__(self, overlay: Overlay, processes: int, settings: BrokerSettings | None = None):
        self._overlay = overlay
        self._settings = settings
        self._context = multiprocessing.get_context("fork")
        count = max(1, min(processes, len(overlay.scot.brokers)))
        shares = [list(overlay.scot.brokers[number::count]) for number in range(count)]
        self._workers = [self._fork(share) for share in shares]

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    def poll(self) -> dict[str, dict[str, Any]]:
        """Read the workers' reports, restart workers that died, and return the last report of every broker."""
        self._listen()
        for worker in self._workers:
            if not worker.process.is_alive():
                self._revive(worker)
        return {report["id"]: report for worker in self._workers for report in worker.reports}

    def is_ready(self) -> bool:
        """Return whether every broker is connected to all of its neighbours and accepts publications."""
        reports = self.poll()
        return len(reports) == len(self._overlay.scot.brokers) and all(map(is_connected, reports.values()))

    def stop(self) -> int:
        """Let all workers drain and stop; return the number of publications that could not be passed on in time."""
        for worker in self._workers:
            if worker.process.is_alive():
                worker.process.terminate()
        deadline = time.monotonic() + STOP_S
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
        late = [worker for worker in self._workers if worker.process.is_alive()]
        for worker in late:
            log.warning("the process of %s did not stop in time and was killed", ", ".join(map(str, worker.brokers)))
            worker.process.kill()
            worker.process.join()
        self._listen()
        return sum(worker.left for worker in self._workers)

    def _fork(self, brokers: list[BrokerId]) -> _Worker:
        ours, theirs = self._context.Pipe()
        arguments = (self._overlay, brokers, self._settings, theirs)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Worker(brokers, process, ours)

    def _listen(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(EOFError, OSError):
                while worker.pipe.poll():
                    self._hear(worker, worker.pipe.recv())

    def _hear(self, worker: _Worker, said: Any) -> None:
        if isinstance(said, str):
            worker.problem = said
        elif isinstance(said, int):
            worker.left = said
        else:
            worker.reports = said
            worker.pipe.send(True)  # Allow the worker to send the next reports.

    def _revive(self, worker: _Worker) -> None:
        if worker.problem:
            raise Unavailable(worker.problem)
        if worker.restarts >= RESTARTS_MAX:
            names = ", ".join(map(str, worker.brokers))
            raise Unavailable(f"the process of {names} has died {worker.restarts + 1} times and is not restarted")
        log.warning("the process of %s died and is restarted", ", ".join(map(str, worker.brokers)))
        revived = self._fork(worker.brokers)
        worker.process, worker.pipe, worker.reports = revived.process, revived.pipe, []
        worker.restarts += 1


def _work(overlay: Overlay, brokers: list[BrokerId], settings: BrokerSettings | None, pipe: Pipe) -> None:
    """Run some brokers in a worker; only the parent handles SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    async def main() -> None:
        stop = asyncio.Event()
        is_unread = False

        def tell(reports: list[dict[str, Any]]) -> None:
            nonlocal is_unread
            if os.getppid() != parent:
                stop.set()  # The parent is gone and cannot stop this process later.
                return
            with contextlib.suppress(OSError, EOFError):
                # A busy parent must not block the brokers, as a full pipe would.
                if not is_unread or (pipe.poll() and pipe.recv()):
                    pipe.send(reports)
                    is_unread = True

        left = await run_brokers(
            overlay, brokers, settings=settings, on_reports=tell, stop=stop, together=overlay.scot.brokers
        )
        with contextlib.suppress(OSError):
            pipe.send(left)

    try:
        run_loop(main())
    except OctopiaError as error:
        with contextlib.suppress(OSError):
            pipe.send(str(error))
