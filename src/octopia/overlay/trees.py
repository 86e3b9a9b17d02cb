"""The acyclic factor of an overlay: a connected graph of regions without cycles (paper section 3).

A tree is written as its edges (``a-b, b-c``), as a single region (``a``), or as a generator: ``path:3``, ``star:5``,
``binary:7``, or a tree of the paper: ``paper:fig3``, ``paper:fig7`` and ``paper:se``.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import string
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from octopia.errors import InvalidOverlay
from octopia.tomlfile import suggestion

Edge = tuple[str, str]

MOST_REGIONS = 10_000
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """An acyclic, connected graph; regions and edges are sorted, and each edge has its lower region first.

    ``Tree.of`` accepts edges in any order.
    """

    regions: tuple[str, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        _check_regions(self.regions)
        _check_edges(self)
        _check_acyclic(self.edges)
        _check_connected(self)

    @classmethod
    def of(cls, edges: Iterable[Edge], regions: Iterable[str] = ()) -> Tree:
        """Return a tree of edges in any order, and of ``regions`` that need not have an edge."""
        ordered = sorted((min(edge), max(edge)) for edge in edges)
        named = dict.fromkeys([*regions, *itertools.chain.from_iterable(ordered)])
        return cls(tuple(sorted(named)), tuple(ordered))

    def adjacency(self) -> dict[str, tuple[str, ...]]:
        """Return the sorted neighbours of every region."""
        return {region: tuple(sorted(near)) for region, near in _adjacency(self.edges, self.regions).items()}

    @property
    def diameter(self) -> int:
        """The number of edges between the two most distant regions."""
        return len(self.longest_path()) - 1

    def longest_path(self) -> tuple[str, ...]:
        """Return the regions of a longest path, the lower end first; ties are broken by name."""
        adjacency = self.adjacency()
        one = _farthest(adjacency, self.regions[0])
        other = _farthest(adjacency, one)
        low, high = min(one, other), max(one, other)
        return tuple(_path(adjacency, low, high))


def _adjacency(edges: Iterable[Edge], regions: Iterable[str]) -> dict[str, list[str]]:
    near: dict[str, list[str]] = {region: [] for region in regions}
    for low, high in edges:
        near.setdefault(low, []).append(high)
        near.setdefault(high, []).append(low)
    return near


def _reach(adjacency: dict[str, tuple[str, ...]], start: str) -> dict[str, str]:
    """Return every reachable region, nearest first, with the region it was reached from."""
    came_from = {start: start}
    waiting = deque([start])
    while waiting:
        region = waiting.popleft()
        for near in adjacency[region]:
            if near not in came_from:
                came_from[near] = region
                waiting.append(near)
    return came_from


def _farthest(adjacency: dict[str, tuple[str, ...]], start: str) -> str:
    distance: dict[str, int] = {}
    for region, previous in _reach(adjacency, start).items():
        distance[region] = distance[previous] + 1 if region != start else 0
    return min(distance, key=lambda region: (-distance[region], region))


def _path(adjacency: dict[str, tuple[str, ...]], start: str, end: str) -> Iterator[str]:
    towards_end = _reach(adjacency, end)
    yield start
    while start != end:
        start = towards_end[start]
        yield start


def _check_regions(regions: tuple[str, ...]) -> None:
    if not regions:
        raise InvalidOverlay("expected a tree of at least one region, got none")
    if len(regions) > MOST_REGIONS:
        raise InvalidOverlay(f"expected a tree of at most {MOST_REGIONS} regions, got {len(regions)}")
    for region in regions:
        if not _REGION.fullmatch(region):
            raise InvalidOverlay(
                f"expected a region to be a letter and then letters, digits or underscores, got {_quoted(region)}"
            )
    if any(left >= right for left, right in itertools.pairwise(regions)):
        raise InvalidOverlay(f"expected sorted, distinct regions in a tree, got {', '.join(regions)}")


def _check_edges(tree: Tree) -> None:
    regions = dict.fromkeys(tree.regions)
    for low, high in tree.edges:
        if low == high:
            raise InvalidOverlay(f"expected an edge to join two regions, got the self edge {low}-{high}")
        if low not in regions or high not in regions:
            raise InvalidOverlay(f"expected every edge to join regions of the tree, got {low}-{high}")
        if low > high:
            raise InvalidOverlay(f"expected every edge with its lower region first, got {low}-{high}")
    for left, right in itertools.pairwise(tree.edges):
        if left == right:
            low, high = left
            raise InvalidOverlay(
                f"expected every edge once, got {low}-{high} twice ({low}-{high} and {high}-{low} are the same edge)"
            )
        if left > right:
            raise InvalidOverlay(f"expected the edges of a tree sorted, got {'-'.join(left)} before {'-'.join(right)}")


def _check_acyclic(edges: tuple[Edge, ...]) -> None:
    """Check for cycles by joining regions edge by edge; an edge between joined regions closes a cycle."""
    leader: dict[str, str] = {}

    def lead(region: str) -> str:
        while leader.setdefault(region, region) != region:
            leader[region] = leader[leader[region]]
            region = leader[region]
        return region

    for position, (low, high) in enumerate(edges):
        if lead(low) == lead(high):
            forest = {region: tuple(near) for region, near in _adjacency(edges[:position], ()).items()}
            cycle = "-".join([*_path(forest, low, high), low])
            raise InvalidOverlay(
                f"expected a tree, got the cycle {cycle}; remove one of its edges, such as {low}-{high}"
            )
        leader[lead(low)] = lead(high)


def _check_connected(tree: Tree) -> None:
    reached = _reach(tree.adjacency(), tree.regions[0])
    apart = [region for region in tree.regions if region not in reached]
    if apart:
        shown = ", ".join(apart[:5]) + (", …" if len(apart) > 5 else "")
        raise InvalidOverlay(
            f"expected a connected tree, got no path from region {tree.regions[0]} to {shown}; "
            f"add an edge such as {tree.regions[0]}-{apart[0]}"
        )


def parse_tree(text: str) -> Tree:
    """Parse a tree: edges separated by commas, a single region, or a generator such as ``path:3``."""
    if ":" in text:
        return _generate(text)
    if not text.strip():
        raise InvalidOverlay('expected a tree such as "a-b, b-c", got an empty string')
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1 and "-" not in text:
        return Tree.of([], regions=parts)
    return Tree.of([_parse_edge(part) for part in parts])


def _parse_edge(part: str) -> Edge:
    ends = [end.strip() for end in part.split("-")]
    if len(ends) > 2 and all(map(_REGION.fullmatch, ends)):
        chain = ", ".join(f"{low}-{high}" for low, high in itertools.pairwise(ends))
        raise InvalidOverlay(f'expected an edge of two regions, got {_quoted(part)} (did you mean "{chain}"?)')
    if len(ends) != 2 or not all(map(_REGION.fullmatch, ends)):
        raise InvalidOverlay(f"expected an edge of two regions such as a-b, got {_quoted(part)}")
    return ends[0], ends[1]


PAPER_TREES = {
    "fig3": "a-b, b-c, b-d, d-e, e-f",
    "fig7": "a-b, b-c",
    # D1: the evaluation overlay S_e, from the factors in the paper's Fig. 9.
    "se": "A-F, E-F, K-F, F-G, B-G, L-G, G-H, C-H, M-H, H-I, D-I, J-I, N-I",
}
_PAPER_CLUSTERS = {"fig3": 3, "fig7": 4, "se": 4}


def default_clusters(text: str) -> int | None:
    """Return the default number of clusters of a tree of the paper, None for all other trees."""
    family, _, name = text.partition(":")
    return _PAPER_CLUSTERS.get(name.strip()) if family.strip() == "paper" else None


def _generate(text: str) -> Tree:
    family, _, argument = (part.strip() for part in text.partition(":"))
    if family == "paper":
        return _paper_tree(argument)
    if family not in _GENERATORS:
        known = [*_GENERATORS, "paper"]
        raise InvalidOverlay(
            f"expected a generator, one of {', '.join(known)}, got {_quoted(family)}{suggestion(family, known)}"
        )
    size = _parse_size(family, argument)
    names = list(itertools.islice(region_names(), size))
    parents = _GENERATORS[family]
    return Tree.of([(names[parents(each)], names[each]) for each in range(1, size)], regions=names[:1])


def _paper_tree(name: str) -> Tree:
    if name not in PAPER_TREES:
        known = list(PAPER_TREES)
        raise InvalidOverlay(
            f"expected a tree of the paper, one of {', '.join(known)}, got {_quoted(name)}{suggestion(name, known)}"
        )
    return parse_tree(PAPER_TREES[name])


def _parse_size(family: str, argument: str) -> int:
    # The pattern limits the length: Python refuses to convert thousands of digits.
    if not re.fullmatch(r"[0-9]{1,9}", argument) or not 1 <= int(argument) <= MOST_REGIONS:
        raise InvalidOverlay(
            f"expected a number of regions from 1 to {MOST_REGIONS} after {family}:, got {_quoted(argument)}"
        )
    return int(argument)


_GENERATORS: dict[str, Callable[[int], int]] = {
    "path": lambda each: each - 1,
    "star": lambda each: 0,
    "binary": lambda each: (each - 1) // 2,
}
"""The number of a region's parent by generator; region 0 has no parent."""


def region_names() -> Iterator[str]:
    """Yield a, b, … z, aa, ab, … endlessly."""
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)


def _quoted(text: str) -> str:
    shown = text if len(text) <= 40 else text[:37] + "..."
    return f'"{shown}"'
