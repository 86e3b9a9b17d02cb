"""The input of ``octopia pub --stdin``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from octopia.cli.publish import _lines_of
from octopia.errors import UsageError

PATIENCE_S = 10.0

_READ_ONE_LINE = """
import asyncio, sys
from octopia.cli.publish import _lines_of

async def main():
    async for _, line in _lines_of(sys.stdin.buffer):
        sys.exit(line)

asyncio.run(main())
"""


def test_a_command_that_fails_while_its_input_is_open_exits_in_order() -> None:
    command = [sys.executable, "-c", _READ_ONE_LINE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"the first line\n")
        process.stdin.flush()
        said, code = process.stderr.read(), process.wait()
        process.stdin.close()
    assert (code, said) == (1, b"the first line\n")


def test_input_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    async def read() -> None:
        # Its descriptor is for writing only.
        with os.fdopen(os.open(tmp_path / "lines", os.O_WRONLY | os.O_CREAT), "rb") as stream:
            async with asyncio.timeout(PATIENCE_S):
                async for _ in _lines_of(stream):
                    pytest.fail("there is nothing to read")

    with pytest.raises(UsageError, match="expected input that can be read, got: Bad file descriptor"):
        asyncio.run(read())
