"""OpenTelemetry over real brokers: producer spans, and consumer spans that link to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

import octopia
from octopia.runtime.local import Overlay

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from octopia.otel import Tracing

PATIENCE_S = 30.0


class Spans:
    """A tracing whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


def linked(spans: Iterable[ReadableSpan]) -> list[str]:
    """Return the spans that these link to, each as in a traceparent."""
    links = [link.context for span in spans for link in span.links]
    return [f"{each.trace_id:032x}-{each.span_id:016x}" for each in links]


def identity(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}-{context.span_id:016x}"


def test_subscribers_link_to_the_span_of_the_publisher() -> None:
    spans = Spans()

    async def run() -> None:
        async with (
            Overlay.local("path:2", 2) as overlay,
            octopia.connect(overlay.url("a.0"), name="feed", tracing=spans.tracing) as publisher,
            octopia.connect(overlay.url("b.1"), name="screen", tracing=spans.tracing) as subscriber,
            octopia.connect(overlay.url("b.0"), name="plain") as untraced,
        ):
            await publisher.advertise("x > 0", timeout=PATIENCE_S)
            subscription = await subscriber.subscribe("x > 0", timeout=PATIENCE_S)
            other = await untraced.subscribe("x > 0", timeout=PATIENCE_S)
            tracer = spans.provider.get_tracer("test")
            with tracer.start_as_current_span("request"):
                await publisher.publish({"x": 1}, b"1234")
            received = await subscription.next(timeout=PATIENCE_S)
            with spans.tracing.process(received), tracer.start_as_current_span("work"):
                pass
            plain = await other.next(timeout=PATIENCE_S)
            (send,) = spans.named("send")
            assert plain["traceparent"] == received["traceparent"]
            assert str(received["traceparent"]).startswith(f"00-{identity(send)}-")
            assert (plain["x"], plain.payload) == (1, b"1234")

    asyncio.run(run())
    (request,), (send,), (receive,), (process,), (work,) = map(
        spans.named, ("request", "send", "receive", "process", "work")
    )
    assert send.parent == request.get_span_context()
    assert send.kind is trace.SpanKind.PRODUCER
    assert send.attributes is not None
    assert send.attributes["messaging.system"] == "octopia"
    assert send.attributes["messaging.client.id"] == "feed"
    assert send.attributes["messaging.message.body.size"] == 4
    for consumer in (receive, process):
        assert consumer.kind is trace.SpanKind.CONSUMER
        assert linked([consumer]) == [identity(send)]
        assert consumer.context.trace_id != send.context.trace_id
        assert consumer.attributes is not None
        assert str(consumer.attributes["messaging.message.id"]).startswith("a.0/")
        assert consumer.attributes["octopia.hops"] in (2, 3)
    assert work.parent == process.get_span_context()


def test_each_publication_of_many_has_its_own_span() -> None:
    spans = Spans()

    async def later() -> AsyncIterator[dict[str, Any]]:
        for x in (3, 4):
            yield {"x": x}

    async def run() -> None:
        async with (
            Overlay.local("path:2", 1) as overlay,
            octopia.connect(overlay.url("a.0"), tracing=spans.tracing) as publisher,
            octopia.connect(overlay.url("b.0"), tracing=spans.tracing) as subscriber,
        ):
            await publisher.advertise("x > 0", timeout=PATIENCE_S)
            processed, done = list[object](), asyncio.Event()

            def take(publication: octopia.Received) -> None:
                assert trace.get_current_span().get_span_context().is_valid
                processed.append(publication["x"])
                if len(processed) == 4:
                    done.set()

            await subscriber.subscribe("x > 0", callback=take, timeout=PATIENCE_S)
            assert await publisher.publish_many([{"x": 1}, ({"x": 2}, b"payload")]) == 2
            assert await publisher.publish_many(later()) == 2
            with pytest.raises(octopia.InvalidPublication, match="item 1: "):
                await publisher.publish_many([{"x": 5, "y": 1}, {}])
            await asyncio.wait_for(done.wait(), PATIENCE_S)
            assert processed == [1, 2, 3, 4]

    asyncio.run(run())
    created = spans.named("create")[:4]
    assert linked(spans.named("process")) == [identity(each) for each in created]
    assert [each.parent for each in created[:2]] == [spans.named("send")[0].get_span_context()] * 2
    assert spans.named("receive") == []


def test_a_refused_publication_ends_its_span_with_the_reason() -> None:
    spans = Spans()

    async def run() -> None:
        async with (
            Overlay.local("a", 1) as overlay,
            octopia.connect(overlay.url("a.0"), tracing=spans.tracing) as client,
        ):
            await client.advertise("x > 0", timeout=PATIENCE_S)
            with pytest.raises(octopia.RequestRefused):
                await client.publish({"x": -1})

    asyncio.run(run())
    (send,) = spans.named("send")
    assert send.status.status_code is trace.StatusCode.ERROR
    assert "refused" in str(send.status.description)


def test_a_traceparent_of_the_program_is_kept_and_linked_to() -> None:
    spans, own = Spans(), f"00-{'ab' * 16}-{'cd' * 8}-01"

    async def run() -> None:
        async with (
            Overlay.local("a", 1) as overlay,
            octopia.connect(overlay.url("a.0"), tracing=spans.tracing) as client,
        ):
            await client.advertise("x > 0", timeout=PATIENCE_S)
            subscription = await client.subscribe("x > 0", timeout=PATIENCE_S)
            await client.publish({"x": 1, "traceparent": own})
            await client.publish({"x": 2, "traceparent": "nonsense"})
            assert [(await subscription.next(timeout=PATIENCE_S))["traceparent"] for _ in "12"] == [own, "nonsense"]

    asyncio.run(run())
    expected = f"{'ab' * 16}-{'cd' * 8}"
    assert linked(spans.named("send")) == linked(spans.named("receive")) == [expected]


def test_nothing_is_added_without_a_provider_or_without_room() -> None:
    spans = Spans()

    async def run() -> None:
        full = {f"a{index}": index for index in range(64)}
        async with (
            Overlay.local("a", 1) as overlay,
            octopia.connect(overlay.url("a.0"), tracing=Tracing(trace.NoOpTracerProvider())) as idle,
            octopia.connect(overlay.url("a.0"), tracing=spans.tracing) as traced,
        ):
            subscription = await idle.subscribe("a0 >= 0", timeout=PATIENCE_S)
            await idle.advertise("a0 >= 0", timeout=PATIENCE_S)
            await idle.publish({"a0": 1})
            assert (await subscription.next(timeout=PATIENCE_S)).attributes == {"a0": 1}
            await traced.advertise("a0 >= 0", timeout=PATIENCE_S)
            with pytest.raises(octopia.RequestRefused, match="a1"):  # Not 65 attributes, which would be invalid.
                await traced.publish(full)

    asyncio.run(run())
    assert len(spans.named("send")) == 1


def test_overflow_and_acknowledgement_are_those_of_untraced_subscriptions() -> None:
    spans = Spans()

    async def run() -> None:
        async with (
            Overlay.local("a", 1) as overlay,
            octopia.connect(overlay.url("a.0"), tracing=spans.tracing) as client,
        ):
            await client.advertise("x >= 0", timeout=PATIENCE_S)
            newest = await client.subscribe("x >= 0", buffer=2, overflow="drop_oldest", timeout=PATIENCE_S)
            strict = await client.subscribe("x >= 0", buffer=2, timeout=PATIENCE_S)
            manual = await client.subscribe("x >= 0", ack="manual", timeout=PATIENCE_S)
            await client.publish_many({"x": x} for x in range(4))
            assert [(await manual.next(timeout=PATIENCE_S))["x"] for _ in range(4)] == [0, 1, 2, 3]
            manual.acknowledge()
            assert [each["x"] for each in await newest.next_batch()] == [2, 3]
            assert newest.lost == 2
            assert [each["x"] for each in await strict.next_batch()] == [0, 1]
            with pytest.raises(octopia.SlowSubscriber):
                await strict.next(timeout=PATIENCE_S)

    asyncio.run(run())
    assert len(spans.named("receive")) == 4 + 4 + 3  # The third fills the strict one, and ends it.


def test_the_blocking_client_keeps_the_span_of_its_caller() -> None:
    spans, is_up, is_over = Spans(), threading.Event(), threading.Event()
    url = ""

    async def serve() -> None:
        nonlocal url
        async with Overlay.local("a", 1) as overlay:
            url = overlay.url("a.0")
            is_up.set()
            await asyncio.to_thread(is_over.wait, PATIENCE_S)

    serving = threading.Thread(target=asyncio.run, args=[serve()])
    serving.start()
    try:
        assert is_up.wait(PATIENCE_S)
        with octopia.connect_blocking(url, tracing=spans.tracing) as client:
            client.advertise("x > 0", timeout=PATIENCE_S)
            subscription = client.subscribe("x > 0", timeout=PATIENCE_S)
            with spans.provider.get_tracer("test").start_as_current_span("request"):
                client.publish({"x": 1}, timeout=PATIENCE_S)
            assert subscription.next(timeout=PATIENCE_S)["x"] == 1
    finally:
        is_over.set()
        serving.join(PATIENCE_S)
    (request,), (send,), (receive,) = map(spans.named, ("request", "send", "receive"))
    assert send.parent == request.get_span_context()
    assert linked([receive]) == [identity(send)]
