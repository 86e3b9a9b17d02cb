"""Lines: a publisher, brokers or relays in a row, and subscribers, one process each; and costs of lines run in turn."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import octopia
from network_load import CHOICES, run_publisher, run_subscribers
from network_middle import run_broker
from network_processes import Child, Program, Wrong, end_all, run_relay
from octopia.addresses import Address
from octopia.broker import Detail
from octopia.experiments.local_overlay import READY_S, at_free_addresses, cpu_s_of, free_addresses, percentile
from octopia.overlay.files import Overlay, overlay_from_text

FAN = 2 * CHOICES

Expectation = Callable[[int, int], dict[int, list[int]]]
"""From the first number and the count, the publications that each subscriber must get."""


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """One measurement, with the CPU time of each process in the middle; ``hops`` are links that deliveries crossed."""

    cpu_s_by_process: list[float]
    wall_s: float
    delays_ms: list[float]
    hops: int

    @property
    def cpu_s(self) -> float:
        """The CPU time of all processes in the middle."""
        return sum(self.cpu_s_by_process)


class Line:
    """A publisher, brokers or relays, and subscribers."""

    def __init__(self, pids: Sequence[int], publisher: Child, subscribers: Child, expectation: Expectation):
        self._pids = pids
        self._publisher = publisher
        self._subscribers = subscribers
        self._expectation = expectation
        self._next = 0

    def run(self, count: int, rate: float = 0.0, *, in_order: bool = True, has_details: bool = False) -> Round:
        """Publish, and wait until everything has arrived; rerouted publications may arrive in any order.

        Only rounds with a rate and those that ask for details have delays and hops.
        """
        first, self._next = self._next, self._next + count
        expected = self._expectation(first, count)
        self._subscribers.tell(sum(map(len, expected.values())), has_details or bool(rate))
        self._publisher.tell(first, count, rate)
        self._subscribers.hear()
        self._publisher.hear()
        gc.collect()
        before_s, begin = self._cpu_s(), time.monotonic()
        self._publisher.tell("go")
        last_s, delays_ms, hops = self._subscribers.hear()
        cpu_s = [after_s - each_s for after_s, each_s in zip(self._cpu_s(), before_s, strict=True)]
        self._subscribers.tell("check")
        got = self._subscribers.hear()
        check(got if in_order else {each: sorted(numbers) for each, numbers in got.items()}, expected)
        return Round(cpu_s, last_s - begin, delays_ms, hops)

    def _cpu_s(self) -> list[float]:
        return list(map(cpu_s_of, self._pids))


def check(got: dict[int, list[int]], expected: dict[int, list[int]]) -> None:
    """Fail unless every subscriber got the expected publications, once and in order."""
    for subscriber, numbers in expected.items():
        found = got[subscriber]
        if found != numbers:
            missing, doubled = len(set(numbers) - set(found)), len(found) - len(set(found))
            strange = len(set(found) - set(numbers))
            raise Wrong(
                f"expected {len(numbers)} publications at subscriber {subscriber}, once and in order, "
                f"got {len(found)}: {missing} missing, {doubled} duplicated, {strange} not for it"
            )


def everything(first: int, count: int) -> dict[int, list[int]]:
    """Return the publications that the only subscriber must get."""
    return {0: list(range(first, first + count))}


def everything_50_times(first: int, count: int) -> dict[int, list[int]]:
    """Return the publications of 50 subscribers that want all."""
    numbers = list(range(first, first + count))
    return dict.fromkeys(range(CHOICES), numbers)


def ranges(first: int, count: int) -> dict[int, list[int]]:
    """Return the publications that subscribers with RANGES must get."""
    numbers = range(first, first + count)
    high = {n: [each for each in numbers if each % CHOICES >= n] for n in range(CHOICES)}
    low = {n + CHOICES: [each for each in numbers if each % CHOICES < n] for n in range(CHOICES)}
    return high | low


def halves(first: int, count: int) -> dict[int, list[int]]:
    """Return the publications for the receivers of a relay that alternates between two halves."""
    numbers = range(first, first + count)
    return {n: [each for each in numbers if each % 2 == n // (FAN // 2)] for n in range(FAN)}


# Lines.


@contextlib.contextmanager
def clients(
    first: Address,
    last: Address,
    pids: Sequence[int],
    interests: list[list[str]],
    expectation: Expectation,
    has_session: bool,
) -> Iterator[Line]:
    """Connect a publisher and subscribers."""
    with contextlib.ExitStack() as stack:
        subscribers = Child("subscriber", run_subscribers, last, interests, has_session)
        stack.callback(subscribers.end)
        subscribers.hear()
        publisher = Child("publisher", run_publisher, first, has_session)
        stack.callback(publisher.end)
        publisher.hear()
        yield Line(pids, publisher, subscribers, expectation)


@contextlib.contextmanager
def broker_processes(overlay: Overlay) -> Iterator[list[int]]:
    """Run the brokers of an overlay, one process per broker, and yield the process ids, in order of their ids."""
    children = [Child("broker", run_broker, overlay, broker) for broker in overlay.scot.brokers]
    try:
        for each in children:
            each.hear()
        yield [each.pid for each in children]
    finally:
        end_all(children)


@contextlib.contextmanager
def broker_line(length: int, interests: list[list[str]], expectation: Expectation) -> Iterator[Line]:
    """Run brokers in a row, one process per broker."""
    overlay = at_free_addresses(overlay_from_text(f"path:{length}", 1))
    first, last = overlay.scot.brokers[0], overlay.scot.brokers[-1]
    with (
        broker_processes(overlay) as pids,
        clients(overlay.addresses[first], overlay.addresses[last], pids, interests, expectation, True) as line,
    ):
        yield line


@contextlib.contextmanager
def program_line(
    source: Path, length: int, interests: list[list[str]], expectation: Expectation, trace: Detail = Detail.OFF
) -> Iterator[Line]:
    """Run brokers of a source tree in a row, one process per broker."""
    addresses = free_addresses(length)
    brokers = overlay_from_text(f"path:{length}", 1).scot.brokers
    text = f'tree = "path:{length}"\nclusters = 1\n'
    for broker, address in zip(brokers, addresses, strict=True):
        text += f'[brokers."{broker}"]\nport = {address.port}\n'
    with contextlib.ExitStack() as stack:
        overlay = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "overlay.toml"
        overlay.write_text(text)
        options = ["--trace", trace.name.lower()]
        programs = [Program("broker", source, "broker", str(overlay), str(each), *options) for each in brokers]
        stack.callback(end_all, programs)
        for each in programs:
            each.hear()
        pids = [each.pid for each in programs]
        yield stack.enter_context(clients(addresses[0], addresses[-1], pids, interests, expectation, True))


@contextlib.contextmanager
def relay_line(
    length: int, receivers: int, expectation: Expectation, *, shares: int = 1, source: Path | None = None
) -> Iterator[Line]:
    """Run relays in a row, one process per relay; with ``source``, of another source tree.

    Receivers form ``shares`` groups, which get publications in turn.
    """
    addresses = free_addresses(length)
    with contextlib.ExitStack() as stack:
        relays: list[Child | Program] = []
        stack.callback(end_all, relays)
        for place in reversed(range(length)):
            onward = addresses[place + 1] if place + 1 < length else None
            relay = _relay(addresses[place], onward, shares, source)
            relays.insert(0, relay)
            relay.hear()
        pids = [relay.pid for relay in relays]
        yield stack.enter_context(clients(addresses[0], addresses[-1], pids, [[]] * receivers, expectation, False))


def _relay(address: Address, onward: Address | None, shares: int, source: Path | None) -> Child | Program:
    if source is None:
        return Child("relay", run_relay, address, onward, shares)
    options = [] if onward is None else ["--onward", str(onward.port)]
    return Program("relay", source, "relay", str(address.port), "--shares", str(shares), *options)


@contextlib.contextmanager
def plain_source() -> Iterator[Path]:
    """Yield a copy of this source tree without compiled modules."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(octopia.__file__).parent
        shutil.copytree(
            package, Path(folder) / "octopia", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        )
        yield Path(folder)


def wait_for(address: Address) -> None:
    """Wait until a process listens at an address."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((address.host, address.port)):
            return
        time.sleep(0.01)
    raise Wrong(f"no process listens at {address}")


# Costs.


def in_turns(
    lines: Mapping[str, Line], count: int, rounds: int, rate: float = 0.0, **options: bool
) -> dict[str, list[Round]]:
    """Run all lines in turn, after a warm-up; each is the first of a round as often as others."""
    for line in lines.values():
        line.run(max(20, count // 10), rate, **options)
    found: dict[str, list[Round]] = {name: [] for name in lines}
    names = list(lines)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(lines[name].run(count, rate, **options))
    return found


def cost_rows(
    seconds: Mapping[str, Sequence[float]], count: int, references: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return the cost of a publication on each line, and its ratios to those on others.

    ``references`` has the line for each column of ratios, which are medians of the ratios per round.
    """
    rows = {}
    for name, each_s in seconds.items():
        rows[name] = {"cpu_us": median(each_s) / count * 1e6, "best_us": min(each_s) / count * 1e6}
        for column, reference in references.items():
            if reference != name and reference in seconds:
                rows[name][column] = median(a / b for a, b in zip(each_s, seconds[reference], strict=True))
    return rows


def cpu_rows(
    found: Mapping[str, Sequence[Round]], count: int, references: Mapping[str, str], column: str = "line"
) -> list[dict[str, Any]]:
    """Return the costs of lines as rows of a table, with publications per second of the fastest round."""
    costs = cost_rows({name: [each.cpu_s for each in runs] for name, runs in found.items()}, count, references)
    return [
        {column: name, **costs[name], "per_s": count / min(each.wall_s for each in runs)}
        for name, runs in found.items()
    ]


def delay_rows(found: Mapping[str, Sequence[Round]], column: str = "line") -> list[dict[str, Any]]:
    """Return the delays of lines as rows of a table."""
    rows = []
    for name, runs in found.items():
        delays_ms = [delay for each in runs for delay in each.delays_ms]
        row: dict[str, Any] = {column: name, "publications": len(delays_ms)}
        rows.append(row | {f"p{share}_us": percentile(delays_ms, share) * 1000 for share in (50, 99)})
    return rows
