"""Processes that run brokers: one process for some brokers, or a parent with several workers for a whole overlay.

The parent imports everything and then forks its workers, so they start at once. It receives reports about their
brokers, restarts workers that die, and lets all of them drain when it is stopped. A worker that keeps dying is
restarted at growing intervals, and never stops the others. A broker that is fenced stays down until the overlay is
started again: if it were restarted, it would be the newer one and fence the other in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

from octopia.broker import BrokerSettings
from octopia.client.operators import is_connected
from octopia.errors import OctopiaError, Unavailable
from octopia.ids import BrokerId
from octopia.overlay.files import Overlay
from octopia.runtime.defaults import NODE_SETTINGS, check_delays, memory_budget
from octopia.runtime.draining import all_at_rest
from octopia.runtime.eventlog import EventKind, EventLog
from octopia.runtime.operating import report_on
from octopia.runtime.server import BrokerServer
from octopia.transport.loop import run_loop

REPORT_S = 0.5
"""The interval of a worker's reports."""
DRAIN_S = 10.0
"""The time limit for brokers to drain."""
COLLECT_AFTER = 20_000
"""The number of new objects after which garbage is collected; Python's own is 700."""
STOP_S = 15.0
"""The time limit for a worker to drain and stop."""
BACKOFF_S = (0.1, 10.0)
"""The shortest and the longest wait before a worker that died is restarted; it doubles each time."""
HEALTHY_S = 60.0
"""The age at which a worker counts as healthy: when it dies later, the shortest wait applies again."""


def exclude_from_collection() -> None:
    """Exclude everything that exists at the start of this process from garbage collection, and collect rarely.

    That is 34,000 objects of imported modules, and most of the time of a collection: the tables of a broker hold
    objects that the collector ignores. Publications on their way hold no cycles, and are many.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


async def run_brokers(
    overlay: Overlay,
    brokers: Sequence[BrokerId],
    *,
    settings: BrokerSettings | None = None,
    on_listening: Callable[[], None] | None = None,
    on_reports: Callable[[list[dict[str, Any]]], None] | None = None,
    on_fenced: Callable[[dict[str, str]], None] | None = None,
    stop: asyncio.Event | None = None,
    together: Sequence[BrokerId] | None = None,
    problems: Callable[[], dict[str, str]] = dict,
    beside: Callable[[Sequence[BrokerServer]], contextlib.AbstractAsyncContextManager[None]] | None = None,
    host: str = "",
) -> int:
    """Run some brokers of an overlay until this process gets SIGTERM or SIGINT; then drain.

    Return the number of publications that could not be passed on in time. Raise Unavailable if all brokers are fenced;
    while others run, ``on_fenced`` gets the reasons of those that are.

    ``together`` names all brokers that are stopped at the same time, by default those of this process. ``problems``
    returns why other brokers are not running, as far as this process knows. ``beside`` returns a context for anything
    else that runs in this event loop with the brokers. The brokers listen at ``host`` instead of their hosts in the
    overlay, if it is given.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node_settings = dataclasses.replace(NODE_SETTINGS, memory_bytes=memory_budget(len(brokers)))
    servers = [BrokerServer(overlay, broker, settings, node_settings) for broker in brokers]
    stack = contextlib.AsyncExitStack()
    try:
        for server in servers:
            server.problems = problems
            await server.listen(dataclasses.replace(server.address, host=host or server.address.host))
        if on_listening is not None:
            on_listening()
        for server in servers:
            server.start()
        if beside is not None:
            await stack.enter_async_context(beside(servers))
        running = servers
        while not stop.is_set():
            fenced = {str(server.id): server.fenced for server in servers if server.fenced}
            if fenced and len(running) + len(fenced) > len(servers):
                running = [server for server in servers if not server.fenced]
                if on_fenced is not None:
                    on_fenced(fenced)
                if not running:
                    raise Unavailable("; ".join(fenced.values()))
            if on_reports is not None:
                on_reports([report_on(server) for server in running])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), REPORT_S)
        for server in running:
            server.begin_to_drain(brokers if together is None else together)
        await all_at_rest(running, DRAIN_S)
        return sum(server.left_behind for server in running)
    finally:
        try:
            await stack.aclose()
        finally:
            await asyncio.gather(*(server.stop() for server in servers))


@dataclasses.dataclass(frozen=True, slots=True)
class Restart:
    """The next restart of a worker, on the monotonic clock of this machine, and the reason why it died.

    A broker that stays down has a restart that is never due.
    """

    at_s: float
    reason: str

    def describe(self, now_s: float) -> str:
        """Return the state of the worker's brokers, as reports show it."""
        if math.isinf(self.at_s):
            return f"down until it is started again: {self.reason}"
        return f"restarting in {max(0.0, self.at_s - now_s):.1f} s: {self.reason}"


def next_wait_s(wait_s: float, lived_s: float) -> float:
    """Return the wait before the next restart, after one of ``wait_s`` (0: none yet) and a life of ``lived_s``."""
    shortest_s, longest_s = BACKOFF_S
    return shortest_s if not wait_s or lived_s >= HEALTHY_S else min(longest_s, 2.0 * wait_s)


@dataclasses.dataclass(slots=True)
class _Worker:
    """A process of the overlay, and its last reports.

    ``problem`` is the reason that it gave for its end, if any; ``first_problem`` is that of its first life. ``restart``
    is set from its death until it reports again. ``fenced`` holds the brokers that stay down, each with the reason.
    """

    brokers: list[BrokerId]
    process: multiprocessing.process.BaseProcess
    pipe: Pipe
    started_s: float
    reports: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    left: int = 0
    problem: str = ""
    first_problem: str = ""
    wait_s: float = 0.0
    restart: Restart | None = None
    fenced: dict[str, str] = dataclasses.field(default_factory=dict)
    is_running: bool = True

    @property
    def names(self) -> str:
        """The names of its brokers."""
        return ",".join(map(str, self.brokers))

    @property
    def startable(self) -> list[BrokerId]:
        """The brokers that are not fenced."""
        return [broker for broker in self.brokers if str(broker) not in self.fenced]


class Workers:
    """All brokers of an overlay in several processes; each of those in ``alone`` has its own."""

    def __init__(
        self,
        overlay: Overlay,
        processes: int,
        settings: BrokerSettings | None = None,
        alone: Collection[BrokerId] = (),
        host: str = "",
    ):
        for broker in overlay.scot.brokers:
            check_delays(overlay, broker)
        self._overlay = overlay
        self._settings = settings
        self._host = host
        self._context = multiprocessing.get_context("fork")
        self._events = EventLog(overlay=overlay.name)
        self._has_come_up = False
        others = [broker for broker in overlay.scot.brokers if broker not in alone]
        count = max(1, min(processes, len(others)))
        shares = [*([broker] for broker in alone), *(others[number::count] for number in range(count))]
        self._workers = [_Worker(share, *self._fork(share), time.monotonic()) for share in shares]

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    def poll(self) -> dict[str, dict[str, Any]]:
        """Read the workers' reports, restart workers that died, and return the last report of every broker.

        Raise Unavailable if no worker has ever come up, and all of them say why.
        """
        self._listen()
        for worker in self._workers:
            if worker.is_running and not worker.process.is_alive():
                self._note_death(worker)
            elif not worker.is_running and worker.restart is not None and time.monotonic() >= worker.restart.at_s:
                self._revive(worker)
        if not self._has_come_up and all(worker.first_problem for worker in self._workers):
            raise Unavailable(self._workers[0].first_problem)
        self._events.flush()
        return {report["id"]: report for worker in self._workers for report in worker.reports}

    def wait(self, timeout_s: float) -> None:
        """Wait until a worker reports, dies or is due to be restarted, at most for ``timeout_s``."""
        running = [worker for worker in self._workers if worker.is_running]
        due_s = [each.restart.at_s for each in self._workers if each.restart is not None and not each.is_running]
        rest_s = min((at_s - time.monotonic() for at_s in due_s), default=timeout_s)
        ends = [end for worker in running for end in (worker.pipe, worker.process.sentinel)]
        wait(ends, max(0.0, min(timeout_s, rest_s)))

    def problems(self) -> dict[str, str]:
        """Return the state of the brokers whose worker died and has not come up again."""
        return _describe(self._restarts(), time.monotonic())

    def _restarts(self) -> dict[str, Restart]:
        pending = [worker for worker in self._workers if worker.restart is not None]
        found = {str(broker): worker.restart for worker in pending for broker in worker.brokers if worker.restart}
        for worker in self._workers:
            found |= {broker: Restart(math.inf, reason) for broker, reason in worker.fenced.items()}
        return found

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
            self._note(EventKind.WORKER_DIED, worker, reason="it did not stop in time and was killed")
            worker.process.kill()
            worker.process.join()
        self._listen()
        self._events.flush(is_over=True)
        return sum(worker.left for worker in self._workers)

    def stop_now(self) -> None:
        """Kill all workers, which lose what they hold."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
        self._events.flush(is_over=True)

    def kill(self, broker: BrokerId) -> None:
        """Kill the worker of a broker, as a crash would, and leave its brokers down."""
        worker = next(each for each in self._workers if broker in each.brokers)
        worker.fenced |= {str(each): "it was killed" for each in worker.brokers}
        worker.process.kill()
        worker.process.join()

    def _fork(self, brokers: list[BrokerId]) -> tuple[multiprocessing.process.BaseProcess, Pipe]:
        ours, theirs = self._context.Pipe()
        arguments = (self._overlay, brokers, self._settings, theirs, self._host)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        # A collection in the worker must not write to the pages that it shares with this process.
        gc.freeze()
        try:
            process.start()
        finally:
            gc.unfreeze()
            theirs.close()
        return process, ours

    def _listen(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(EOFError, OSError):
                while worker.pipe.poll():
                    self._handle(worker, worker.pipe.recv())

    def _handle(self, worker: _Worker, said: Any) -> None:
        if isinstance(said, str):
            worker.problem = said
        elif isinstance(said, dict):
            worker.fenced |= said
        elif isinstance(said, int):
            worker.left = said
        else:
            if worker.restart is not None:
                self._note(EventKind.WORKER_RESTARTED, worker)
            worker.reports, worker.restart = said, None
            self._has_come_up = True
            worker.pipe.send(self._restarts())  # Allow the worker to send the next reports.

    def _note_death(self, worker: _Worker) -> None:
        """Schedule the restart of a worker that died; a reason that it gives is logged once."""
        self._listen()
        reason = worker.problem or _describe_exit(worker.process.exitcode or 0)
        worker.first_problem = worker.first_problem or worker.problem
        if not worker.problem or worker.restart is None or worker.restart.reason != reason:
            self._note(EventKind.WORKER_DIED, worker, reason=reason)
        worker.pipe.close()
        self._schedule(worker, reason)

    def _schedule(self, worker: _Worker, reason: str) -> None:
        now_s = time.monotonic()
        worker.wait_s = next_wait_s(worker.wait_s, now_s - worker.started_s)
        due_s = now_s + worker.wait_s if worker.startable else math.inf
        worker.restart, worker.is_running, worker.reports = Restart(due_s, reason), False, []

    def _revive(self, worker: _Worker) -> None:
        worker.started_s = time.monotonic()
        try:
            worker.process, worker.pipe = self._fork(worker.startable)
            worker.is_running, worker.problem = True, ""
        except OSError as error:  # The machine may have no room for another process now.
            self._schedule(worker, f"it cannot be started: {error.strerror or error}")

    def _note(self, kind: EventKind, worker: _Worker, **fields: str) -> None:
        self._events.note(kind, worker.names, brokers=worker.names, **fields)


def _describe_exit(code: int) -> str:
    """Return the exit code of a process, or the signal that killed it; real-time signals have no names."""
    if code >= 0:
        return f"exit code {code}"
    known = {int(each): each.name for each in signal.Signals}
    return f"killed by {known.get(-code, f'signal {-code}')}"


def _describe(restarts: dict[str, Restart], now_s: float) -> dict[str, str]:
    return {broker: restart.describe(now_s) for broker, restart in restarts.items()}


def _work(overlay: Overlay, brokers: list[BrokerId], settings: BrokerSettings | None, pipe: Pipe, host: str) -> None:
    """Run some brokers in a worker; only the parent handles SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()

    async def main() -> None:
        stop = asyncio.Event()
        is_unread = False
        restarts: dict[str, Restart] = {}

        def report(reports: list[dict[str, Any]]) -> None:
            nonlocal is_unread, restarts
            if os.getppid() != parent:
                stop.set()  # The parent is gone and cannot stop this process later.
                return
            with contextlib.suppress(OSError, EOFError):
                # A busy parent must not block the brokers, as a full pipe would.
                if is_unread and pipe.poll():
                    restarts, is_unread = pipe.recv(), False
                if not is_unread:
                    pipe.send(reports)
                    is_unread = True

        left = await run_brokers(
            overlay,
            brokers,
            settings=settings,
            on_reports=report,
            on_fenced=pipe.send,
            stop=stop,
            together=overlay.scot.brokers,
            problems=lambda: _describe(restarts, time.monotonic()),
            host=host,
        )
        with contextlib.suppress(OSError):
            pipe.send(left)

    gc.set_threshold(COLLECT_AFTER)
    try:
        run_loop(main())
    except OctopiaError as error:
        with contextlib.suppress(OSError):
            pipe.send(str(error))
