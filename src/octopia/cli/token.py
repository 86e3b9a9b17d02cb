"""``octopia token``: create, list and revoke the tokens of clients and operators."""

from __future__ import annotations

import dataclasses
import datetime
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, complete_toml
from octopia.cli.output import print_json
from octopia.content import Disjunction, format_filter, parse_filter
from octopia.content.values import check_name
from octopia.errors import FilterTooLarge, InvalidPublication, UsageError
from octopia.node.permissions import EVERYTHING, NOTHING
from octopia.security.tokens import Token, TokenRole, changing_tokens, new_token, read_tokens

_EXPIRED = "expired"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

TokenFile = Annotated[Path, typer.Argument(metavar="FILE", help="Token file (.toml).", autocompletion=complete_toml)]
TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]


@examples(
    'octopia token add tokens.toml feed --advertise "symbol IS NOT NULL AND price > 0" --expires 90d',
    "octopia token add tokens.toml screen --read \"symbol IN ('IBM', 'SAP')\" --hide account",
    "octopia token add tokens.toml admin --role operator --advertise TRUE --expires 12h",
)
def add(
    file: TokenFile,
    name: TokenName,
    role: Annotated[
        TokenRole, typer.Option("--role", help="Clients publish and subscribe, operators also send commands.")
    ] = TokenRole.CLIENT,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Filter that covers all that may be advertised; TRUE is everything."),
    ] = None,
    read: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Filter that every subscription is narrowed by; TRUE is everything."),
    ] = None,
    hide: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTRIBUTE", help="Attribute that is removed from deliveries; may be repeated."),
    ] = None,
    hide_payload: Annotated[bool, typer.Option("--hide-payload", help="Remove payloads from deliveries, too.")] = False,
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Lifetime such as 12h or 90d, or a time such as 2030-01-31T12:00:00Z."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token, and print it.

    The file gets a hash only, so the token is shown this once. A client without --advertise may publish nothing, and
    one without --read gets nothing. With these options an operator may publish and read, too. Running brokers accept
    the token at once.
    """
    if role is TokenRole.CLIENT and advertise is None and read is None:
        raise UsageError("expected --advertise or --read, or both, for a client, got neither")
    text, secret_hash = new_token(name)
    token = Token(
        name,
        secret_hash,
        role,
        None if expires is None else _time(expires, datetime.datetime.now(datetime.UTC)),
        advertise=_filter("--advertise", advertise),
        read=_filter("--read", read),
        hide=tuple(map(_attribute, dict.fromkeys(hide or ()))),
        hide_payload=hide_payload,
    )
    with changing_tokens(file) as tokens:
        if name in tokens:
            raise UsageError(f"expected a new name, got {name!r}, which {file} has: revoke it and choose another name")
        tokens[name] = token
    if as_json:
        print_json({"token": text, **_row(token)})
    else:
        typer.echo(text)


@examples("octopia token list tokens.toml", "octopia token list tokens.toml --json")
def show(file: TokenFile, as_json: AsJson = False) -> None:
    """List the tokens of a file, with their permissions."""
    tokens = list(read_tokens(file).values())
    rows = [_row(each) for each in tokens]
    if as_json:
        print_json(rows)
        return
    for token, row in zip(tokens, rows, strict=True):
        word = "since" if row["state"] == _EXPIRED else "until"
        end = f" {word} {row['expires']}" if row["expires"] else ""
        hidden = [*row["hide"], *(["the payload"] if row["hide_payload"] else [])]
        parts = [f"{row['name']}: {row['role']}, {row['state']}{end}"]
        if row["role"] == TokenRole.CLIENT or not token.permissions.allows_nothing:
            parts += [f"advertises {row['advertise']}", f"reads {row['read']}"]
        typer.echo("; ".join([*parts, f"without {', '.join(hidden)}"] if hidden else parts))


@examples("octopia token revoke tokens.toml feed")
def revoke(file: TokenFile, name: TokenName, as_json: AsJson = False) -> None:
    """Revoke a token, so that brokers no longer accept it.

    Running brokers close its connections within a few seconds. The entry stays in the file.
    """
    read_tokens(file)  # A missing file is an error here.
    with changing_tokens(file) as tokens:
        if name not in tokens:
            raise UsageError(f"expected a token of {file} ({', '.join(tokens) or 'it has none'}), got {name!r}")
        tokens[name] = dataclasses.replace(tokens[name], is_revoked=True)
    if as_json:
        print_json(_row(tokens[name]))
    else:
        typer.echo(f"{name} is revoked")


def _filter(option: str, text: str | None) -> Disjunction:
    if text is None:
        return NOTHING
    wanted = parse_filter(text)
    try:
        parse_filter(format_filter(wanted))  # As brokers will read it.
    except FilterTooLarge as error:
        raise UsageError(f"expected a shorter filter after {option}: {error.sentence}") from None
    return wanted


def _attribute(name: str) -> str:
    check_name(name, "after --hide", InvalidPublication)
    return name


def _time(text: str, now: datetime.datetime) -> datetime.datetime:
    lifetime = re.fullmatch(r"(\d{1,9})([smhd])", text)
    try:
        if lifetime:
            return now + datetime.timedelta(seconds=int(lifetime[1]) * _UNITS[lifetime[2]])
        found = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise UsageError(
            f"expected a lifetime such as 12h or 90d, or a time such as 2030-01-31T12:00:00Z, got {text!r}"
        )
    found = found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
    if found <= now:
        raise UsageError(f"expected a time in the future for --expires, got {text}, which is in the past")
    return found


def _row(token: Token) -> dict[str, Any]:
    state = "valid" if token.is_valid(datetime.datetime.now(datetime.UTC)) else _EXPIRED
    return {
        "name": token.name,
        "role": str(token.role),
        "state": "revoked" if token.is_revoked else state,
        "expires": None if token.expires is None else token.expires.isoformat(timespec="seconds"),
        "advertise": _text(token.advertise),
        "read": _text(token.read),
        "hide": list(token.hide),
        "hide_payload": token.hide_payload,
    }


def _text(allowed: Disjunction) -> str:
    if allowed == EVERYTHING:
        return "everything"
    return "nothing" if allowed == NOTHING else format_filter(allowed)
