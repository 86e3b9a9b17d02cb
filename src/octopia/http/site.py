"""The answers to requests: the page, health, metrics, and reports as JSON."""

from __future__ import annotations

import asyncio
import importlib.resources
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from octopia.client.operators import is_connected
from octopia.errors import BadRequest, OctopiaError
from octopia.http import metrics
from octopia.http.exchange import JSON, Request, Response
from octopia.http.snapshot import Snapshot
from octopia.http.watch import Watch
from octopia.protocol import Command, Verb

_SCRIPTS = ("chart", "draw", "feed", "layout", "main")
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/map.css": ("map.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in _SCRIPTS},
}
"""The files of the live map by path."""


class Site:
    """The answers of one port."""

    def __init__(self, watch: Watch):
        self._watch = watch
        folder = importlib.resources.files("octopia.http") / "static"
        self._files = {path: (folder / name).read_bytes() for path, (name, _) in FILES.items()}
        self._pages: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/brokerz": self._brokerz,
            "/linkz": self._linkz,
            "/tablez": self._tablez,
            "/civz": self._civz,
            "/clientz": self._clientz,
        }

    async def respond(self, request: Request) -> Response:
        """Answer a request for anything but the feed."""
        if request.path in FILES:
            return Response(200, self._files[request.path], FILES[request.path][1])
        page = self._pages.get(request.path)
        if page is None:
            known = " ".join(["/", "/feed", *self._pages])
            raise BadRequest(404, f"expected one of the paths {known}, got {request.path[:100]!r}")
        return await page(request)

    async def _healthz(self, request: Request) -> Response:
        return Response(200, b"ok\n")

    async def _readyz(self, request: Request) -> Response:
        """Answer whether all brokers of this port run and are connected to all of their neighbours."""
        snapshot = await self._watch.snapshot()
        waiting = [broker for broker in self._watch.brokers if not _is_ready(snapshot, broker)]
        if not waiting:
            return Response(200, b"ok\n")
        return Response(503, f"not ready: {' '.join(waiting)}\n".encode())

    async def _metrics(self, request: Request) -> Response:
        snapshot = await self._watch.snapshot()
        return Response(200, metrics.exposition(snapshot, self._watch.brokers), metrics.CONTENT_TYPE)

    async def _brokerz(self, request: Request) -> Response:
        snapshot = await self._watch.snapshot()
        brokers = {broker: snapshot.reports.get(broker) for broker in self._watch.brokers}
        return _json({"at_ms": snapshot.at_ms, "brokers": brokers, "problems": snapshot.problems})

    async def _linkz(self, request: Request) -> Response:
        snapshot = await self._watch.snapshot()
        links = {f"{source}>{target}": link for (source, target), link in snapshot.links.items()}
        return _json({"at_ms": snapshot.at_ms, "links": links})

    async def _tablez(self, request: Request) -> Response:
        snapshot = await self._watch.snapshot()
        tables = {broker: report["tables"] for broker, report in snapshot.reports.items()}
        return _json({"at_ms": snapshot.at_ms, "tables": tables})

    async def _civz(self, request: Request) -> Response:
        return await self._from_brokers(request, Verb.CIVS)

    async def _clientz(self, request: Request) -> Response:
        return await self._from_brokers(request, Verb.CLIENTS)

    async def _from_brokers(self, request: Request, verb: Verb) -> Response:
        """Ask all brokers, or the one named in the query."""
        named = request.query.get("broker")
        if named is not None and named not in self._watch.brokers:
            raise BadRequest(404, f"expected a broker of this port, got {named[:100]!r}")
        brokers = self._watch.brokers if named is None else (named,)
        found = await asyncio.gather(*(self._ask(broker, verb) for broker in brokers))
        return _json({"brokers": dict(zip(brokers, found, strict=True))})

    async def _ask(self, broker: str, verb: Verb) -> dict[str, Any]:
        try:
            return await self._watch.source.ask(broker, Command(verb))
        except OctopiaError as error:
            return {"problem": str(error)}


def _is_ready(snapshot: Snapshot, broker: str) -> bool:
    return broker in snapshot.reports and is_connected(snapshot.reports[broker])


def _json(value: dict[str, Any]) -> Response:
    return Response(200, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n", JSON)
