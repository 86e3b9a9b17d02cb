"""The addresses of Spark: masters and Spark Connect servers, checked before Spark is started.

Spark itself tries for minutes to reach a machine that does not answer, and reports something else in the end.
"""

from __future__ import annotations

import queue
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Sequence

from octopia.errors import JobFailed, UsageError
from octopia.pipeline.configuration import PipelineSettings

ANSWER_S = 5.0
"""The longest wait for a connection, to any of several masters."""
_MASTER = re.compile(r"local|local\[[^\]]+\]|local-cluster\[[^\]]+\]|yarn|(spark|k8s)://.+")
_REMOTE = re.compile(r"local|local\[[^\]]+\]|sc://.+")
_PORTS = {"spark": 7077, "sc": 15002, "https": 443, "http": 80}


def check_address(settings: PipelineSettings) -> None:
    """Raise an error if the settings name no Spark, or one that does not answer."""
    if settings.remote is not None and not _REMOTE.fullmatch(settings.remote):
        raise UsageError(f"expected a remote such as sc://machine:15002, got {settings.remote}")
    if settings.master is not None and not _MASTER.fullmatch(settings.master):
        raise UsageError(f"expected a master such as local[2], spark://machine:7077 or yarn, got {settings.master}")
    where = settings.remote or settings.master or ""
    if problem := _problem_of_all(addresses_of(where)):
        raise JobFailed(f"expected Spark at {where}, got no answer: {problem}")


def addresses_of(url: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of a URL; there are several masters if one can replace another."""
    scheme, _, rest = url.removeprefix("k8s://").partition("://")
    if not rest:
        # Spark takes a bare host after k8s:// as one with https.
        scheme, rest = ("https", scheme) if url.startswith("k8s://") else ("", "")
    found = []
    for each in filter(None, re.split(r"[/;]", rest, maxsplit=1)[0].split(",")):
        try:
            parts = urllib.parse.urlsplit(f"//{each}")
            found.append((parts.hostname or "", parts.port or _PORTS[scheme]))
        except (ValueError, KeyError):
            raise UsageError(f"expected a machine and a port in {url}, got {each}") from None
    return found


def _problem_of_all(addresses: Sequence[tuple[str, int]]) -> str:
    """Return why none of several addresses answers, or nothing if one does, or if there are none."""
    outcomes: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()

    def attempt(number: int, host: str, port: int) -> None:
        outcomes.put((number, _problem(host, port)))

    for number, (host, port) in enumerate(addresses):
        # A name server may take longer than the limit, so nobody waits for the end of these threads.
        threading.Thread(target=attempt, args=(number, host, port), daemon=True).start()
    problems = [f"{host}:{port}: timed out" for host, port in addresses]
    deadline_s = time.monotonic() + ANSWER_S
    for _ in addresses:
        try:
            number, problem = outcomes.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except queue.Empty:
            break
        if not problem:
            return ""
        problems[number] = problem
    return problems[0] if problems else ""


def _problem(host: str, port: int) -> str:
    """Return why no connection can be made, or nothing."""
    try:
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return ""
