"""An extension of the documentation site: turns the tables and definitions of docstrings into Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_RULE = r"=+(?: +=+)+"
_TABLE = re.compile(rf"^{_RULE}\n(?P<head>.*?)\n(?P<rule>{_RULE})\n(?P<body>.*?)\n{_RULE}$", re.MULTILINE | re.DOTALL)
_TERM = re.compile(r"^(``\w+``)\n {4}(?=\S)", re.MULTILINE)
_TITLE = re.compile(r"^(\S.*)\n-{3,}$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites the docstring of every object."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            text = _TITLE.sub(r"**\1**\n", obj.docstring.value)
            text = _TERM.sub(r"\1\n:   ", text)
            obj.docstring.value = _TABLE.sub(_to_markdown, text)


def _to_markdown(table: re.Match[str]) -> str:
    spans = [match.span() for match in re.finditer("=+", table["rule"])]
    spans[-1] = (spans[-1][0], 1000)
    rows = [[line[begin:end].strip() for begin, end in spans] for line in table["body"].splitlines()]
    head = [table["head"][begin:end].strip() for begin, end in spans]
    lines = [head, ["---"] * len(spans), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
