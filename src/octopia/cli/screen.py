"""A rich console that shows control characters as escapes, in cells, titles and lines."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from octopia.cli.output import printable


class Screen(Console):
    """A console for texts of clients."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as rich shows it; every string that is printed passes through here."""
        return super().render_str(printable(text), **options)
