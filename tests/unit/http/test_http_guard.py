"""Who may ask: hosts, tokens and origins."""

from __future__ import annotations

import pytest

from octopia.errors import BadRequest, UsageError
from octopia.http.exchange import Request
from octopia.http.guard import Guard, check_token, cookie_name, is_loopback


def request(path: str = "/linkz", query: dict[str, str] | None = None, **headers: str) -> Request:
    return Request("GET", path, query or {}, {"host": "localhost:7480"} | headers)


def status_of(guard: Guard, asked: Request) -> int:
    try:
        guard.check(asked)
    except BadRequest as error:
        return error.status
    return 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    Guard(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org"])
def test_others_need_one(host: str) -> None:
    with pytest.raises(UsageError, match="OCTOPIA_HTTP_TOKEN"):
        Guard(host)


@pytest.mark.parametrize("host", ["localhost:7480", "127.0.0.1:7480", "127.0.0.1", "[::1]:7480", "localhost:9999"])
def test_a_request_to_this_machine_is_answered(host: str) -> None:
    assert status_of(Guard("127.0.0.1"), request(host=host)) == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7480", "127.0.0.1.evil.example", "", "[evil]:80"])
def test_a_name_that_was_made_to_point_here_is_not(host: str) -> None:
    assert status_of(Guard("127.0.0.1"), request(host=host)) == 421


def test_the_token_may_come_as_a_header_a_cookie_or_a_query() -> None:
    guard = Guard("0.0.0.0", "s3cret")
    assert status_of(guard, request()) == 401
    assert status_of(guard, request(authorization="Bearer s3cret")) == 200
    assert status_of(guard, request(authorization="Bearer s3cre")) == 401
    assert status_of(guard, request(authorization="Basic s3cret")) == 401
    assert status_of(guard, request(cookie="other=1; octopia_token_7480=s3cret")) == 200
    assert status_of(guard, request(cookie="octopia_token_7480=wrong")) == 401
    assert status_of(guard, request(query={"token": "s3cret"})) == 200
    assert status_of(guard, request("/healthz")) == 200


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:7480", "octopia_token_7480"),
        ("localhost:7481", "octopia_token_7481"),
        ("[::1]:7480", "octopia_token_7480"),
        ("[::1]", "octopia_token"),
        ("map.example.org", "octopia_token"),
        ("localhost:x=1;y", "octopia_token"),
    ],
)
def test_two_ports_of_a_host_have_two_cookies(host: str, name: str) -> None:
    asked = request("/", {"token": "s3cret"}, host=host)
    assert cookie_name(asked) == name
    guard = Guard("0.0.0.0", "s3cret")
    cookie = guard.cookie(asked)
    assert cookie.startswith(f"{name}=s3cret; HttpOnly")
    assert status_of(guard, request(host=host, cookie=f"{cookie.partition(';')[0]}; octopia_token_1=other")) == 200


def test_a_proxy_that_keeps_the_host_may_send_the_commands_of_the_page() -> None:
    guard = Guard("10.0.0.7", "s3cret")
    through = request("/feed", host="map.example.org", origin="https://map.example.org", authorization="Bearer s3cret")
    assert status_of(guard, through) == 200
    assert guard.may_command(through)
    assert status_of(Guard("127.0.0.1", "s3cret"), through) == 421


def test_beyond_this_machine_any_host_will_do_with_the_token() -> None:
    assert status_of(Guard("0.0.0.0", "s3cret"), request(host="broker7:7480", authorization="Bearer s3cret")) == 200


def test_only_the_page_of_this_port_may_send_commands() -> None:
    guard = Guard("127.0.0.1")
    assert guard.may_command(request(origin="http://localhost:7480"))
    assert not guard.may_command(request())
    for origin in ("http://evil.example", "http://localhost:7481", "null", "http://localhost:7480.evil.example"):
        with pytest.raises(BadRequest) as caught:
            guard.may_command(request(origin=origin))
        assert caught.value.status == 403


def test_a_token_must_fit_into_a_cookie() -> None:
    assert check_token("aZ0-._~") == "aZ0-._~"
    with pytest.raises(UsageError, match="expected a token of letters"):
        check_token("a;b")
