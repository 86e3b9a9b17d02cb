"""Access to the HTTP port: the host that a request names, its token, and the origin of a page that sends commands.

Any page in a browser can send requests to this machine. A page whose own name is made to point here (DNS rebinding) is
recognised by the Host header. One that opens a WebSocket across sites is recognised by its origin. Requests from other
machines need the token. In an overlay with tokens, all requests need that of an operator.
"""

from __future__ import annotations

import hmac
import http.cookies
import ipaddress
from collections.abc import Callable

from octopia.errors import BadRequest, UsageError
from octopia.http.exchange import Request

_COOKIE = "octopia_token"
OPEN_PATHS = ("/healthz", "/readyz")
"""The paths that need no token, for probes."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """The rules for requests to one port: it has a token, or ``accepts`` those of operators, or both.

    Browsers send the cookie of a port that ``is_encrypted`` over encrypted connections only.
    """

    def __init__(
        self,
        host: str,
        token: str = "",
        accepts: Callable[[str], bool] | None = None,
        *,
        is_encrypted: bool = False,
    ):
        if not is_loopback(host) and not token and accepts is None:
            raise UsageError(
                f"expected a token for HTTP at {host}, which other machines can reach, got none: "
                "give one with --http-token or OCTOPIA_HTTP_TOKEN"
            )
        self._token = token
        self._accepts = accepts
        self.is_encrypted = is_encrypted
        self.is_local = is_loopback(host)

    def check(self, request: Request) -> None:
        """Raise BadRequest unless a request may be answered."""
        host = _host_of(request.headers.get("host", ""))
        if self.is_local and not is_loopback(host):
            raise BadRequest(421, f"expected a request to this machine (127.0.0.1 or localhost), got one to {host!r}")
        if request.path not in OPEN_PATHS and not self.still_accepts(self.token_of(request)):
            problem = (
                f"expected {self.expected_token}, got none or a wrong one: send it as Authorization: Bearer TOKEN, "
                "or open /?token=TOKEN in a browser"
            )
            raise BadRequest(401, problem, [("WWW-Authenticate", "Bearer")])

    def offers_token(self, request: Request) -> bool:
        """Return whether a request has a valid token in its query, to be moved into a cookie."""
        return self.needs_token and self._is_right(request.query.get("token", ""))

    @property
    def expected_token(self) -> str:
        """Whose token requests need, for a sentence."""
        return "the token of this port" if self._accepts is None else "the token of an operator"

    @property
    def needs_token(self) -> bool:
        """True if requests need a token."""
        return bool(self._token) or self._accepts is not None

    def still_accepts(self, token: str) -> bool:
        """Return whether the token of a request is still valid: that of an operator may expire at any time."""
        return not self.needs_token or self._is_right(token)

    def cookie(self, request: Request) -> str:
        """Return the cookie for a browser that has offered a token."""
        secure = "; Secure" if self.is_encrypted else ""
        return f"{cookie_name(request)}={request.query['token']}; HttpOnly; SameSite=Strict; Path=/{secure}"

    def may_command(self, request: Request) -> bool:
        """Return whether a WebSocket may send commands; raise BadRequest if it belongs to another site.

        Browsers always name the origin. Programs that do not may only listen.
        """
        origin = request.headers.get("origin")
        if origin is None:
            return False
        if origin.partition("://")[2] != request.headers.get("host", ""):
            raise BadRequest(403, f"expected a feed for the page of this port, got one for {origin}")
        return True

    def token_of(self, request: Request) -> str:
        """Return the first valid token of a request, or an empty string."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        offered = [credentials.strip()] if scheme.lower() == "bearer" else []
        offered.append(request.query.get("token", ""))
        try:
            cookies = http.cookies.SimpleCookie(request.headers.get("cookie", ""))
        except http.cookies.CookieError:
            cookies = http.cookies.SimpleCookie()
        name = cookie_name(request)
        if name in cookies:
            offered.append(cookies[name].value)
        return next((each for each in offered if self._is_right(each)), "")

    def _is_right(self, offered: str) -> bool:
        if self._token and hmac.compare_digest(offered.encode(), self._token.encode()):
            return True
        return bool(offered) and self._accepts is not None and self._accepts(offered)


def check_token(token: str) -> str:
    """Return a token; raise UsageError if it cannot be a cookie."""
    if not all(character.isascii() and (character.isalnum() or character in "-._~") for character in token):
        raise UsageError("expected a token of letters, digits and -._~, got other characters")
    return token


def cookie_name(request: Request) -> str:
    """Return the name of the cookie that a browser gets in return for ``/?token=…``.

    It contains the port, as the browser knows it: cookies belong to a host, and another port there has another token.
    """
    _, port = _split(request.headers.get("host", ""))
    return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


def _host_of(header: str) -> str:
    """Return the name or address in a Host header, without its port."""
    return _split(header)[0]


def _split(header: str) -> tuple[str, str]:
    """Return the name or address in a Host header, and its port, which may be empty."""
    if header.startswith("["):
        address, _, rest = header[1:].partition("]")
        return address, rest.removeprefix(":")
    host, colon, port = header.rpartition(":")
    return (host, port) if colon else (header, "")
