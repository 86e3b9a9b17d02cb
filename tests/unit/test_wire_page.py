"""The page about the wire format says what is so, as far as a test can tell."""

from __future__ import annotations

import re
from pathlib import Path

from octopia.content import Publication
from octopia.protocol import Frame
from octopia.protocol.messages import PublishRequest
from octopia.wire import Limits, encode
from octopia.wire import format as wire_format
from octopia.wire.format import Kind

PAGE = (Path(__file__).parents[2] / "docs/wire.md").read_text()


def rows(heading: str) -> list[tuple[int, str]]:
    """Return the offset and the type of every field in the table under a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [(int(offset), width) for offset, width in re.findall(r"^\| (\d+) \| ([uif]\d+|bytes) \|", section, re.M)]


def test_the_kinds_are_those_of_the_code():
    assert {name: int(number) for number, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE, re.M)} == {
        kind.name: kind.value for kind in Kind
    }


def test_the_fields_stand_where_the_page_says():
    codes = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i16": "h", "f64": "d"}
    fields = [*rows("Every frame"), *rows("Publications")]
    assert fields.pop() == (wire_format.PUBLICATION.size, "bytes")
    assert "<" + "".join(codes[width] for _, width in fields) == wire_format.PUBLICATION.format
    ends = [offset + int(width[1:]) // 8 for offset, width in fields]
    assert [offset for offset, _ in fields] == [0, *ends[:-1]]


def test_acknowledgements_are_laid_out_as_the_page_says():
    codes = {"u8": "B", "u64": "Q", "f64": "d"}
    fields = rows("Acknowledgements")
    classes = fields.index((wire_format.HEADER.size + wire_format.ACK.size, "u8"))
    assert "<" + "".join(codes[width] for _, width in fields[:classes]) == wire_format.ACK.format
    assert "<" + "".join(codes[width] for _, width in fields[classes:]) == wire_format.PLACED.format
    ends = [offset + int(width[1:]) // 8 for offset, width in fields]
    assert [offset for offset, _ in fields] == [wire_format.HEADER.size, *ends[:-1]]


def test_the_example_is_a_frame():
    request = PublishRequest(1, Publication({"x": 1}, b"hi"), 0.0)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    assert bytes.fromhex(shown) == encode(Frame(2, request))


def test_sizes_are_counted_as_the_page_says():
    request = PublishRequest(1, Publication({"né": "é", "x": 1.5, "y": True}, b"hi"), 0.0)
    assert request.size_bytes == 40 + 2 + 1 + 1 + 1 + 2 * 9 + 2


def test_the_limits_are_those_of_the_code():
    assert Limits() == Limits(publication_bytes_max=3 * 2**19, control_bytes_max=2**20)
    assert (wire_format.ATTRIBUTES_BYTES_MAX, wire_format.REGION_BYTES_MAX, wire_format.VERSION) == (256 * 1024, 255, 3)
