"""One HTTP connection without a socket: requests come out whole, responses go out, mistakes get a status."""

from __future__ import annotations

import pytest

from octopia.errors import BadRequest
from octopia.http.exchange import Exchange, Request, Response, refusal

GET = b"GET /linkz?broker=b.3&x=%20y HTTP/1.1\r\nHost: localhost:7480\r\nAccept: */*\r\n\r\n"


def test_a_request_has_its_path_its_query_and_its_headers() -> None:
    request = Exchange().receive(GET)
    assert request == Request(
        "GET", "/linkz", {"broker": "b.3", "x": " y"}, {"host": "localhost:7480", "accept": "*/*"}
    )


def test_a_request_may_come_in_any_pieces() -> None:
    for size in (1, 7, 40):
        exchange = Exchange()
        found = [exchange.receive(GET[start : start + size]) for start in range(0, len(GET), size)]
        assert found[:-1] == [None] * (len(found) - 1)
        assert found[-1] is not None


def test_requests_are_answered_one_after_the_other() -> None:
    exchange = Exchange()
    assert exchange.receive(GET + GET) is not None
    assert exchange.proceed() is None
    assert exchange.answer(Response(200, b"one")).endswith(b"\r\n\r\none")
    assert exchange.proceed() is not None
    assert exchange.answer(Response(200, b"two")).endswith(b"two")
    assert exchange.proceed() is None
    assert not exchange.is_over


def test_every_response_is_safe_for_browsers() -> None:
    exchange = Exchange()
    exchange.receive(GET)
    head = exchange.answer(Response(200, b"{}", "application/json")).decode().lower()
    assert "content-security-policy: default-src 'none'; script-src 'self'" in head
    for header in ("x-content-type-options: nosniff", "x-frame-options: deny", "cache-control: no-store"):
        assert header in head
    assert "access-control-allow-origin" not in head


def test_the_response_to_head_has_no_body() -> None:
    exchange = Exchange()
    exchange.receive(GET.replace(b"GET", b"HEAD"))
    answer = exchange.answer(Response(200, b"body"))
    assert b"content-length: 4" in answer.lower()
    assert answer.endswith(b"\r\n\r\n")


def test_a_stream_goes_on_in_chunks() -> None:
    exchange = Exchange()
    exchange.receive(GET)
    assert b"transfer-encoding: chunked" in exchange.answer(Response(200, is_stream=True)).lower()
    assert exchange.stream(b"data: 1\n\n") == b"9\r\ndata: 1\n\n\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x00\x01\x02\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/x\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405),
        (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 413),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: x\r\n" % each for each in range(65)) + b"Host: a\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nLong: " + b"x" * 20_000, 431),
        (b"GET http://[bad/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /?" + b"a=1&" * 100 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ],
)
def test_a_mistake_has_a_status_and_ends_the_connection(data: bytes, status: int) -> None:
    exchange = Exchange()
    with pytest.raises(BadRequest) as caught:
        exchange.receive(data)
    assert caught.value.status == status
    answer = exchange.answer(refusal(caught.value))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"connection: close" in answer.lower()
    assert str(caught.value).startswith("expected ")
