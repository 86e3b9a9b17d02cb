"""Tokens: random secrets with which clients and operators identify themselves, and the file that lists them.

A token is ``NAME.SECRET``. The file has the SHA-256 hash of the secret, which is random and long, so a reader of the
file cannot use a token. It is a TOML file with one ``[[token]]`` table per token; docs/security.md describes its
keys. Checking a token takes as long for an unknown name as for a wrong secret, and the answer is the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from octopia.content import Disjunction, format_filter, parse_filter
from octopia.errors import BrokenCredentials, InvalidFile, InvalidFilter, UsageError
from octopia.node import Permissions
from octopia.node.permissions import NOTHING
from octopia.security.files import locked, replace_file
from octopia.tomlfile import Table, read_toml

SECRET_BYTES = 32
OWN_OPERATOR = "@own"
"""The holder of the token that a command creates for its own operators; token files cannot use this name."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_NO_HASH = "0" * 64


class TokenRole(enum.StrEnum):
    """The role that a token gives: clients publish and subscribe, operators also send commands."""

    CLIENT = "client"
    OPERATOR = "operator"


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """An entry of the file. Without ``expires`` a token is valid until it is revoked."""

    name: str
    secret_hash: str
    role: TokenRole = TokenRole.CLIENT
    expires: datetime.datetime | None = None
    is_revoked: bool = False
    advertise: Disjunction = NOTHING
    read: Disjunction = NOTHING
    hide: tuple[str, ...] = ()
    hide_payload: bool = False

    @property
    def permissions(self) -> Permissions:
        """The permissions of a client or an operator with this token."""
        return Permissions(
            self.name,
            self.secret_hash[:16],
            self.advertise,
            self.read,
            self.hide,
            self.hide_payload,
            is_operator=self.role is TokenRole.OPERATOR,
        )

    def is_valid(self, now: datetime.datetime) -> bool:
        """Return whether the token is neither expired nor revoked."""
        return not self.is_revoked and (self.expires is None or now < self.expires)


def new_token(name: str) -> tuple[str, str]:
    """Return a new token and the hash of its secret."""
    check_token_name(name)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return f"{name}.{secret}", _hash(secret)


def own_operator() -> tuple[str, str]:
    """Return a token for the operators of the command that runs the brokers, and the hash of its secret."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return f"{OWN_OPERATOR}.{secret}", _hash(secret)


def tokens_of(path: Path, own_hash: str = "") -> dict[str, Token]:
    """Read a token file, and add the token of the command's own operators, if there is one."""
    tokens = read_tokens(path)
    if own_hash:
        tokens[OWN_OPERATOR] = Token(OWN_OPERATOR, own_hash, TokenRole.OPERATOR)
    return tokens


def check_token_name(name: str) -> None:
    """Raise UsageError for a name that a token may not have."""
    if not _NAME.match(name):
        raise UsageError(f"expected 1 to 64 letters, digits, - or _ as the name of a token, got {name!r}")


def find_token(tokens: Mapping[str, Token], presented: str, now: datetime.datetime) -> Token | None:
    """Return the entry of a presented token, or None if it is invalid for any reason."""
    name, _, secret = presented.partition(".")
    token = tokens.get(name)
    is_right = hmac.compare_digest(_hash(secret), _NO_HASH if token is None else token.secret_hash)
    if token is None or not is_right or not token.is_valid(now):
        return None
    return token


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def read_tokens(path: Path) -> dict[str, Token]:
    """Read a token file; raise BrokenCredentials if it cannot be read."""
    try:
        table = read_toml(path)
        tokens = [_read_token(each) for each in table.tables("token")]
        table.finish()
    except InvalidFile as error:
        raise BrokenCredentials(f"tokens cannot be read: {error}") from None
    named = {each.name: each for each in tokens}
    if len(named) < len(tokens):
        raise BrokenCredentials(f"tokens cannot be read: expected each name once in {path.name}, got one twice")
    return named


def _read_token(table: Table) -> Token:
    name, secret_hash = table.text("name"), table.text("sha256")
    if not _NAME.match(name):
        raise table.wrong("name", "1 to 64 letters, digits, - or _")
    if not _HASH.match(secret_hash):
        raise table.wrong("sha256", "64 hexadecimal digits")
    return Token(
        name,
        secret_hash,
        table.choice("role", TokenRole, TokenRole.CLIENT),
        _read_time(table, "expires"),
        table.boolean("revoked", False),
        _read_filter(table, "advertise"),
        _read_filter(table, "read"),
        table.texts("hide"),
        table.boolean("hide_payload", False),
    )


def _read_time(table: Table, key: str) -> datetime.datetime | None:
    value = table.raw(key, None)
    if value is None:
        return None
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        raise table.wrong(key, "a time with a time zone, such as 2030-01-31T12:00:00Z")
    return value


def _read_filter(table: Table, key: str) -> Disjunction:
    text = table.text(key, None)
    try:
        return NOTHING if text is None else parse_filter(text)
    except InvalidFilter as error:
        raise table.error(f"expected {key} to be a filter, got: {error}") from None


def write_tokens(path: Path, tokens: Iterable[Token]) -> None:
    """Write a token file atomically; a new one is readable by its owner only."""
    text = "\n".join(["# Written by `octopia token`. Brokers read it again when it changes.", *map(_lines, tokens)])
    replace_file(path, text.encode(), 0o600)


@contextlib.contextmanager
def changing_tokens(path: Path) -> Iterator[dict[str, Token]]:
    """Yield the tokens of a file, which may be missing, and write them back; other commands wait meanwhile."""
    with locked(path):
        tokens = read_tokens(path) if path.exists() else {}
        yield tokens
        write_tokens(path, tokens.values())


def _lines(token: Token) -> str:
    lines = ["", "[[token]]", f'name = "{token.name}"', f'sha256 = "{token.secret_hash}"', f'role = "{token.role}"']
    if token.expires is not None:
        lines.append(f"expires = {token.expires.astimezone(datetime.UTC).isoformat(timespec='seconds')}")
    if token.is_revoked:
        lines.append("revoked = true")
    for key, wanted in (("advertise", token.advertise), ("read", token.read)):
        if wanted != NOTHING:
            lines.append(f"{key} = {_quoted(format_filter(wanted))}")
    if token.hide:
        lines.append(f"hide = [{', '.join(map(_quoted, token.hide))}]")
    if token.hide_payload:
        lines.append("hide_payload = true")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
