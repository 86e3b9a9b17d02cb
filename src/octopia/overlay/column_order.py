"""In which order to put the regions of a tree side by side, so that neighbours stand close.

The longest path of the tree becomes the spine, left to right. What hangs on a region of the spine goes around that
region, half before it and half after it, and so on within what hangs there. For a path this is the path itself, and for
the paper's Fig. 3 the order in which the paper draws it.
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
    """Put the subtrees ``hanging`` (each a root and the region it hangs on) before and after ``region``.

    With a stack in place of recursion, as a path may hang there that is longer than Python's stack is deep.
    """
    order: list[str] = []
    # What is still to be written, next at the end: a region itself, or (with its parent) a subtree to take apart.
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
