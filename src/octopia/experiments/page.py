"""A page made of blocks, written as Markdown and as one HTML file that needs nothing but its pictures.

All text is escaped in both. Measurements by a clock, such as the time of day or a duration, stand between two comments.
``without_clock`` takes them out, so that two pages of the same runs can be compared.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import assert_never
from urllib.parse import quote

_CLOCK = "<!-- clock -->"
_END = "<!-- /clock -->"
_APART = "\n\n"
"""Markdown reads a line that begins with a comment as HTML, so that text needs an empty line before it."""
_MARKED = re.compile(f"{_CLOCK}.*?{_END}", re.DOTALL)
_MARKDOWN = re.compile(r"([\\`*\[\]|]|(?<!\w)_|_(?!\w))")


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """Text in a table; ``style`` is a class of the style sheet."""

    text: str
    by_clock: bool = False
    style: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    text: str
    level: int = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of text."""

    text: str
    by_clock: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """A table with a header."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    by_clock: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """A PNG picture that links to its SVG version; addresses are relative to the page."""

    title: str
    png: str
    svg: str
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class Commands:
    """Commands to type, one per line."""

    lines: tuple[str, ...]


Block = Heading | Paragraph | Grid | Picture | Commands


def without_clock(text: str) -> str:
    """Return a page, in either format, without measurements by a clock."""
    return _MARKED.sub("", text)


def cells(*texts: object) -> list[Cell]:
    """Return a row of a table; integers get thousands separators."""
    return [Cell(f"{text:,}" if isinstance(text, int) else str(text)) for text in texts]


def capital(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def to_markdown(blocks: Iterable[Block]) -> str:
    """Return the page as Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def to_html(title: str, blocks: Iterable[Block]) -> str:
    """Return the page as HTML with an embedded style sheet and no script."""
    body = "\n".join(_html(block) for block in blocks)
    return _PAGE.format(title=html.escape(title), style=_STYLE, body=body)


def write_page(folder: Path, title: str, blocks: Sequence[Block]) -> tuple[Path, Path]:
    """Write report.md and report.html into a folder, and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    markdown, page = folder / "report.md", folder / "report.html"
    markdown.write_text(to_markdown(blocks), encoding="utf-8")
    page.write_text(to_html(title, blocks), encoding="utf-8")
    return markdown, page


def _markdown(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {_marked_down(block.text)}"
        case Paragraph():
            return _if_clock(_marked_down(block.text), block.by_clock, _APART)
        case Grid():
            lines = [cells(*block.header), cells(*["---"] * len(block.header)), *block.rows]
            return _if_clock("\n".join(_markdown_row(line) for line in lines), block.by_clock, _APART)
        case Picture():
            picture = f"[![{_marked_down(block.title)}]({quote(block.png)})]({quote(block.svg)})"
            return f"{picture}\n\n{_marked_down(block.note)}"
        case Commands():
            return "\n".join(f"    {line}" for text in block.lines for line in text.splitlines())
        case _:
            assert_never(block)


def _markdown_row(row: Sequence[Cell]) -> str:
    return f"| {' | '.join(_if_clock(_marked_down(cell.text), cell.by_clock) for cell in row)} |"


def _html(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
        case Paragraph():
            return _if_clock(f"<p>{html.escape(block.text)}</p>", block.by_clock)
        case Grid():
            header = "".join(f"<th>{html.escape(text)}</th>" for text in block.header)
            rows = "\n".join(f"<tr>{''.join(_html_cell(cell) for cell in row)}</tr>" for row in block.rows)
            table = (
                f'<div class="wide"><table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'
            )
            return _if_clock(table, block.by_clock)
        case Picture():
            image = f'<img src="{quote(block.png)}" alt="{html.escape(block.title)}" loading="lazy">'
            caption = f"<figcaption>{html.escape(block.note)}</figcaption>"
            return f'<figure><a href="{quote(block.svg)}">{image}</a>{caption}</figure>'
        case Commands():
            return f"<pre>{html.escape(chr(10).join(block.lines))}</pre>"
        case _:
            assert_never(block)


def _html_cell(cell: Cell) -> str:
    inner = html.escape(cell.text)
    if cell.style:
        inner = f'<span class="{html.escape(cell.style)}">{inner}</span>'
    return f"<td>{_if_clock(inner, cell.by_clock)}</td>"


def _if_clock(text: str, by_clock: bool, between: str = "") -> str:
    return f"{_CLOCK}{between}{text}{between}{_END}" if by_clock else text


def _marked_down(text: str) -> str:
    """Escape markup of Markdown and of the HTML within it."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


_STYLE = """
:root { color-scheme: light dark; --ink: #22303c; --paper: #fff; --faint: #5d6b78; --line: #d9dee3; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ec; --paper: #161b20; --faint: #9aa7b3; --line: #37424c; --tint: #1f262d; }
}
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { margin-top: 2.5rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); font-size: 1.3rem; }
h3 { margin: 1.8rem 0 .5rem; font-size: 1.05rem; }
p { max-width: 52rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .4rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { background: var(--tint); white-space: nowrap; }
figure { display: inline-block; width: 33rem; max-width: 100%; margin: 1rem 1rem .8rem 0; vertical-align: top; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 4px; }
figcaption { margin-top: .3rem; color: var(--faint); font-size: .9rem; }
pre { padding: .8rem 1rem; overflow-x: auto; background: var(--tint); border-radius: 4px; }
.verdict { display: inline-block; padding: 0 .5rem; border-radius: 1rem; white-space: nowrap; color: #22303c; }
.agrees { background: #b9dff5; }
.same-direction { background: #f6e7a8; }
.differs { background: #f5c4a5; }
.not-run { background: #d9dee3; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
