"""The ways in which a worker can die, in words."""

from __future__ import annotations

import pytest

from octopia.runtime.process import _describe_exit


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "killed by SIGKILL"), (-45, "killed by signal 45")],
)
def test_an_exit_code_is_described(code: int, text: str) -> None:
    assert _describe_exit(code) == text
