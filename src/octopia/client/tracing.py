"""The interface for distributed tracing, used by clients that are opened with ``connect(tracing=…)``.

``octopia.otel`` implements it with OpenTelemetry. A client without tracing never calls any of this.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from octopia.client.callbacks import Callback
from octopia.client.publishable import Publishable
from octopia.client.received import Received
from octopia.content import Disjunction as Filter  # As programs know it.
from octopia.content import Publication


class Tracing(Protocol):
    """Spans for the publications that a client sends and receives."""

    def declared(self, offer: Filter) -> Filter:
        """Return an advertisement that also declares the attributes that carry the trace."""
        ...

    def sending(self, publication: Publication, client: str) -> AbstractContextManager[Publication]:
        """Return a block in which a publication is sent; it gives the publication to send."""
        ...

    def sending_many(
        self, items: Iterable[Publishable] | AsyncIterable[Publishable], client: str
    ) -> AbstractContextManager[Iterable[Publishable] | AsyncIterable[Publishable]]:
        """Return a block in which many publications are sent; it gives the items to send."""
        ...

    def received(self, publication: Received, client: str) -> None:
        """Note that a publication has arrived, before the program reads it."""
        ...

    def calling(self, callback: Callback, client: str) -> Callback:
        """Return a function that calls a callback of the program within a span."""
        ...
