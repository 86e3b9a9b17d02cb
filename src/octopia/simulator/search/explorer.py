"""The search: every reachable state, up to a limit, once.

States are identified by digests of 16 bytes. For visited states only the digest and the path are kept; whole states are
kept only on the frontier. Breadth first finds the shortest path to a violation. Depth first reaches the ends of long
runs early, where a limit would stop breadth first near their beginnings.
"""

from __future__ import annotations

import dataclasses
import enum
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from octopia.errors import UsageError
from octopia.simulator.search.model import Model, State
from octopia.simulator.search.narration import describe
from octopia.simulator.search.quiescence import QuiescenceChecker
from octopia.simulator.search.scenarios import Scenario

Progress = Callable[[str], None]
_PROGRESS_STATES = 50_000


class Order(enum.StrEnum):
    """The order in which states are visited."""

    BREADTH = "breadth"
    DEPTH = "depth"


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """A violation and the path to it: the index of each transition among the possible ones, and its description."""

    scenario: str
    sentence: str
    path: tuple[int, ...]
    story: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that replays the path."""
        return f"python -m octopia.simulator.search {self.scenario} --replay {','.join(map(str, self.path))}"

    def __str__(self) -> str:
        lines = [f"  {number:3} {line}" for number, line in enumerate(self.story, 1)]
        return "\n".join([self.sentence, *lines, f"replay with: {self.command}"])


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The result of a search; it is ``complete`` if no states were left to visit."""

    scenario: str
    states: int
    transitions: int
    at_rest: int
    nodes: int
    seconds: float
    complete: bool
    violation: Violation | None

    def __str__(self) -> str:
        extent = "all" if self.complete else "the first"
        line = (
            f"{self.scenario}: {extent} {self.states:,} states, {self.transitions:,} transitions, "
            f"{self.at_rest:,} states at rest, {self.nodes:,} different brokers, {self.seconds:.1f} s"
        )
        return f"{line}\n{self.violation}" if self.violation else line


class _Memory:
    """The visited states: their digests, and the first path to each."""

    def __init__(self) -> None:
        self._met: set[bytes] = set()
        self._parents = array("q")
        self._moves = array("B")

    def __len__(self) -> int:
        return len(self._met)

    def note(self, state: State, parent: int, move: int) -> int | None:
        """Store a state and return its number, or None if it was visited before."""
        before = len(self._met)
        self._met.add(state.digest())
        if len(self._met) == before:
            return None
        self._parents.append(parent)
        self._moves.append(move)
        return before

    def path(self, number: int) -> tuple[int, ...]:
        """Return the moves that lead to a state."""
        moves: list[int] = []
        while number > 0:
            moves.append(self._moves[number])
            number = self._parents[number]
        return tuple(reversed(moves))


class Explorer:
    """The search of one scenario."""

    def __init__(self, scenario: Scenario):
        self.model = Model(scenario)
        self._checker = QuiescenceChecker(self.model)
        self._memory = _Memory()
        self._frontier: deque[tuple[int, State]] = deque()
        self._transitions = 0
        self._at_rest = 0

    def search(self, limit: int = 0, order: Order = Order.BREADTH, progress: Progress | None = None) -> Report:
        """Visit all states, or the first ``limit``, until one is wrong."""
        began = time.perf_counter()
        self._begin()
        violation: Violation | None = None
        due = _PROGRESS_STATES
        while self._frontier and violation is None and not 0 < limit <= len(self._memory):
            violation = self._expand(*(self._frontier.popleft() if order is Order.BREADTH else self._frontier.pop()))
            if progress and len(self._memory) >= due:
                due += _PROGRESS_STATES
                seconds = time.perf_counter() - began
                progress(f"{len(self._memory):,} states, {len(self._frontier):,} to visit, {seconds:.0f} s")
        return Report(
            self.model.scenario.name,
            len(self._memory),
            self._transitions,
            self._at_rest,
            len(self.model.stations),
            time.perf_counter() - began,
            not self._frontier and violation is None,
            violation,
        )

    def replay(self, path: Sequence[int]) -> Iterator[tuple[str, str]]:
        """Follow a path, and yield for each step its description and the violation it causes, or an empty text."""
        state = self.model.begin()
        for move in path:
            enabled = self.model.transitions(state)
            if not 0 <= move < len(enabled):
                raise UsageError(f"expected a number below {len(enabled)} at this step of the path, got {move}")
            line = describe(self.model, state, enabled[move])
            state, complaint = self.model.follow(state, enabled[move])
            yield line, complaint or self._complaint_at_rest(state)

    def _begin(self) -> None:
        start = self.model.begin()
        self._memory = _Memory()
        self._memory.note(start, -1, 0)
        self._frontier = deque([(0, start)])
        self._transitions = self._at_rest = 0

    def _expand(self, number: int, state: State) -> Violation | None:
        """Add the next states to the frontier, unless one is wrong."""
        for move, transition in enumerate(self.model.transitions(state)):
            self._transitions += 1
            after, complaint = self.model.follow(state, transition)
            if complaint:
                return self._violation(complaint, (*self._memory.path(number), move))
            met = self._memory.note(after, number, move)
            if met is None:
                continue
            self._at_rest += self.model.is_at_rest(after)
            complaint = self._complaint_at_rest(after)
            if complaint:
                return self._violation(complaint, self._memory.path(met))
            self._frontier.append((met, after))
        return None

    def _complaint_at_rest(self, state: State) -> str:
        return next(self._checker.complaints(state), "") if self.model.is_at_rest(state) else ""

    def _violation(self, sentence: str, path: tuple[int, ...]) -> Violation:
        story = tuple(line for line, _ in self.replay(path))
        return Violation(self.model.scenario.name, sentence, path, story)
