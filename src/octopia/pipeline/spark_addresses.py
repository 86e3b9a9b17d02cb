"""The addresses of Spark: masters and Spark Connect servers, checked before Spark is started.

Spark itself tries for minutes to reach a machine that does not answer, and reports something else in the end.
"""

from __future__ import annotations

import re
import socket
import urllib.parse

from octopia.errors import JobFailed, UsageError
from octopia.pipeline.configuration import PipelineSettings

ANSWER_S = 5.0
"""The longest wait for a connection."""
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
    problems = [_problem(host, port) for host, port in addresses_of(where)]
    if problems and all(problems):
        raise JobFailed(f"expected a Spark at {where}, got no answer: {problems[0]}")


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


def _problem(host: str, port: int) -> str:
    """Return why no connection can be made, or nothing."""
    try:
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return ""
