"""Structured cyclic overlays: trees, their product with a complete graph, neighbourhoods, files and diagrams."""

from octopia.overlay.files import LinkShape, Overlay, load_overlay, overlay_from_text, read_overlay
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.overlay.scot import Link, Scot
from octopia.overlay.trees import Tree, parse_tree

__all__ = [
    "Link",
    "LinkShape",
    "Neighbourhood",
    "Overlay",
    "Scot",
    "Tree",
    "load_overlay",
    "overlay_from_text",
    "parse_tree",
    "read_overlay",
]
