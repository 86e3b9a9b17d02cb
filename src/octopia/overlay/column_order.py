"""The order of regions from left to right in tables and diagrams, with neighbours close to each other.

The longest path of the tree becomes the spine, left to right. The subtrees at a region of the spine are placed around
that region, half before it and half after it, and so on recursively. For a path this gives the path itself, and for the
paper's Fig. 3 the order in the paper.
"""

from __future__ import annotations

from octopia.overlay.trees import Tree

_Adjacency = dict[str, tuple[str, ...]]


def column_order(tree: Tree) -> tuple[str, ...]:
    """Return the regions from left to right."""
    adjacency = tree.adjacency()
    spine = tree.longest_path()
    on_spine = dict.fromkeys(spine)
    order: list[str] = []
    for region in spine:
        hanging = [near for near in adjacency[region] if near not in on_spine]
        order += _around(region, [(each, region) for each in hanging], adjacency)
    return tuple(order)


def _around(region: str, hanging: list[tuple[str, str]], adjacency: _Adjacency) -> list[str]:
    """Place the subtrees ``hanging`` (each a root and its parent) before and after ``region``.

    This uses a stack and not recursion, since a subtree may be deeper than Python's recursion limit.
    """
    order: list[str] = []
    # The rest of the order, next entry last: a region, or a subtree to expand (with its parent).
    waiting: list[tuple[str, str | None]] = _halves(region, hanging)
    while waiting:
        root, parent = waiting.pop()
        if parent is None:
            order.append(root)
        else:
            waiting += _halves(root, [(near, root) for near in adjacency[root] if near != parent])
    return order


def _halves(region: str, hanging: list[tuple[str, str]]) -> list[tuple[str, str | None]]:
    middle = len(hanging) // 2
    return [*reversed(hanging[middle:]), (region, None), *reversed(hanging[:middle])]
