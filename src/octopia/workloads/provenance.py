"""The code and the machine that results come from."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from pathlib import Path

UNKNOWN = "unknown: not run from a repository"


@functools.cache
def commit() -> str:
    """Return the commit of this code, and whether files have changed since, if it runs from a repository."""
    try:
        # An installed package may lie inside an unrelated repository.
        _git("ls-files", "--error-unmatch", "--", __file__)
        return _git("rev-parse", "HEAD") + (" with changes" if _git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN


def _git(*arguments: str) -> str:
    package = Path(__file__).parent.parent
    answer = subprocess.run(["git", *arguments], cwd=package, capture_output=True, text=True, timeout=10, check=True)
    return answer.stdout.strip()


def describe_machine() -> str:
    """Return the CPUs, the memory, the operating system and the Python version of this machine."""
    cpu = _first_of("/proc/cpuinfo", "model name") or platform.machine()
    memory_kib = _first_of("/proc/meminfo", "MemTotal").removesuffix(" kB")
    memory = f", {round(int(memory_kib) / 2**20)} GiB" if memory_kib.isdigit() else ""
    return f"{os.cpu_count()} x {cpu}{memory}, {platform.system()}, Python {platform.python_version()}"


def _first_of(path: str, key: str) -> str:
    """Return the value on the first line with a key, or nothing where Linux's /proc is missing."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next(
        (value.strip() for name, _, value in (line.partition(":") for line in lines) if name.strip() == key), ""
    )
