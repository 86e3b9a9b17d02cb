"""Gaps as ``octopia sub`` prints them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from octopia.cli.subscribe import report_gap
from octopia.protocol import Cause
from octopia.protocol.messages import Gap


def gap(cause: Cause, count: int = 0) -> Any:
    return SimpleNamespace(last_gap=Gap(cause, count))


def test_gaps_are_json_lines_between_the_publications(capsys: pytest.CaptureFixture[str]):
    report_gap(gap(Cause.LINK_DOWN, 3), as_json=True)
    report_gap(gap(Cause.RESTART), as_json=True)
    shown = capsys.readouterr()
    assert [json.loads(line) for line in shown.out.splitlines()] == [
        {"gap": {"cause": "link_down", "count": 3}},
        {"gap": {"cause": "restart", "count": None}},
    ]
    assert "some publications may have been missed here (link_down, up to 3)" in shown.err


def test_as_text_gaps_are_on_stderr_only(capsys: pytest.CaptureFixture[str]):
    report_gap(gap(Cause.RESTART), as_json=False)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "some publications may have been missed here (restart)\n")
