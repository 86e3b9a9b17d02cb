"""OpenTelemetry: spans for publications, from the publisher to its subscribers.

``octopia.connect(tracing=Tracing())`` turns it on. The span of a publication travels in its attribute ``traceparent``,
in the format of W3C Trace Context, so it passes brokers, filters, permissions and archives like any other attribute.
Subscribers create their own spans, which *link* to it: one publication has many subscribers, which read it later or
never, so their spans are not children of the publisher's (OpenTelemetry's conventions for messaging).

Nothing else imports this module, and it is the only one that needs the package opentelemetry-api.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from octopia.client.callbacks import Callback
from octopia.client.publishable import Publishable, to_publication
from octopia.client.received import Received
from octopia.content import Disjunction as Filter  # As programs know it.
from octopia.content import Publication, conjoin, parse_filter
from octopia.content.limits import PUBLICATION_ATTRIBUTES_MAX
from octopia.errors import InvalidPublication, MissingDependency

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    raise MissingDependency(
        "expected the package opentelemetry-api, got none: install it with pip install 'octopia[otel]'"
    ) from None

_DECLARED = parse_filter("traceparent IS NOT NULL AND tracestate IS NOT NULL")
_FIELDS = ("traceparent", "tracestate")
_propagator = TraceContextTextMapPropagator()


class Tracing:
    """Spans of one tracer provider, by default the global one; one object may serve many clients."""

    def __init__(self, tracer_provider: trace.TracerProvider | None = None):
        self._tracer = trace.get_tracer("octopia", tracer_provider=tracer_provider)

    @contextlib.contextmanager
    def process(self, publication: Received, client: str = "") -> Iterator[trace.Span]:
        """Run a block as the processing of a received publication, in a span that links to the publisher's."""
        with self._tracer.start_as_current_span(
            "process",
            kind=trace.SpanKind.CONSUMER,
            attributes=_describe("process", client) | _describe_received(publication),
            links=_links(publication.attributes),
        ) as span:
            yield span

    # For the client.

    def declared(self, offer: Filter) -> Filter:
        """Return an advertisement that also declares ``traceparent`` and ``tracestate``."""
        return conjoin(offer, _DECLARED)

    @contextlib.contextmanager
    def sending(self, publication: Publication, client: str) -> Iterator[Publication]:
        """Send a publication in a span; yield it with the span in its attributes."""
        with self._tracer.start_as_current_span(
            "send",
            kind=trace.SpanKind.PRODUCER,
            attributes=_describe("send", client) | {"messaging.message.body.size": len(publication.payload)},
            links=_links(publication.attributes),
        ):
            yield _stamped(publication)

    @contextlib.contextmanager
    def sending_many(
        self, items: Iterable[Publishable] | AsyncIterable[Publishable], client: str
    ) -> Iterator[Iterable[Publishable] | AsyncIterable[Publishable]]:
        """Send many publications in a span, with a span below it for each, which subscribers link to."""
        with self._tracer.start_as_current_span(
            "send", kind=trace.SpanKind.CLIENT, attributes=_describe("send", client)
        ):
            if isinstance(items, AsyncIterable):
                yield self._created_later(items, client)
            else:
                yield self._created(items, client)

    def received(self, publication: Received, client: str) -> None:
        """Create a span for a publication that has arrived."""
        self._tracer.start_span(
            "receive",
            kind=trace.SpanKind.CONSUMER,
            attributes=_describe("receive", client) | _describe_received(publication),
            links=_links(publication.attributes),
        ).end()

    def calling(self, callback: Callback, client: str) -> Callback:
        """Return a function that runs a callback as the processing of its publication."""

        def call(publication: Received) -> None:
            with self.process(publication, client):
                callback(publication)

        return call

    def _created(self, items: Iterable[Publishable], client: str) -> Iterator[Publishable]:
        for item in items:
            yield self._create(item, client)

    async def _created_later(self, items: AsyncIterable[Publishable], client: str) -> AsyncIterator[Publishable]:
        async for item in items:
            yield self._create(item, client)

    def _create(self, item: Publishable, client: str) -> Publishable:
        try:
            publication = to_publication(item)
        except InvalidPublication:
            return item  # The client finds the same fault, and says which item it is.
        with self._tracer.start_as_current_span(
            "create",
            kind=trace.SpanKind.PRODUCER,
            attributes=_describe("create", client) | {"messaging.message.body.size": len(publication.payload)},
            links=_links(publication.attributes),
        ):
            return _stamped(publication)


def _stamped(publication: Publication) -> Publication:
    """Return a publication that carries the current span, unless it carries one already or has no room for it."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    attributes = publication.attributes
    is_full = len(attributes) + len(carrier) > PUBLICATION_ATTRIBUTES_MAX
    if not carrier or is_full or any(field in attributes for field in _FIELDS):
        return publication
    return Publication({**attributes, **carrier}, publication.payload)


def _links(attributes: Mapping[str, Any]) -> list[trace.Link]:
    """Return a link to the span that a publication carries, if it carries one."""
    carrier = {field: str(attributes[field]) for field in _FIELDS if field in attributes}
    context = trace.get_current_span(_propagator.extract(carrier)).get_span_context()
    return [trace.Link(context)] if carrier and context.is_valid else []


def _describe(operation: str, client: str) -> dict[str, str | int | float]:
    """Return the attributes of a span, by the names of OpenTelemetry's conventions for messaging."""
    described: dict[str, str | int | float] = {
        "messaging.system": "octopia",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if client:
        described["messaging.client.id"] = client
    return described


def _describe_received(publication: Received) -> dict[str, str | int | float]:
    return {
        "messaging.message.id": str(publication.id),
        "messaging.message.body.size": len(publication.payload),
        "octopia.hops": publication.hops,
        "octopia.delay_ms": publication.received_ms - publication.published_ms,
    }
