"""Contexts: named overlays, and the way from a broker's name to its address.

Contexts are in ``octopia/contexts.toml`` below ``$XDG_CONFIG_HOME``, by default ``~/.config``. A context holds URLs of
brokers of one overlay, and the addresses of all brokers and the authority of their certificates if it was made from an
overlay file. Without addresses a broker of the overlay is asked for them, which works on its own machine only.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from octopia.addresses import Address
from octopia.client.credentials import CA_VARIABLE, TOKEN_VARIABLE
from octopia.client.operators import ask_overlay, is_here
from octopia.client.urls import DEFAULT_URL, find_addresses, parse_url, url_of
from octopia.errors import NetworkError, PeerError, UnknownBroker, UsageError
from octopia.tomlfile import Table, read_toml, suggestion

VARIABLE = "OCTOPIA_CONTEXT"
_SHOWN_MAX = 12
_SILENCE_S = 0.5
"""The time after which another broker is asked, too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """A named overlay: URLs of some brokers, and the URL of every broker by its name, if they are known.

    ``ca`` is the file of the authority that has signed their certificates, or empty.
    """

    urls: tuple[str, ...]
    brokers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ca: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts, and the name of the current one, or an empty string."""

    current: str = ""
    named: Mapping[str, Context] = dataclasses.field(default_factory=dict)

    def find(self, name: str) -> Context:
        """Return a context, or raise UsageError."""
        if name not in self.named:
            known = ", ".join(self.named) or "none yet; add one with `octopia context add`"
            raise UsageError(f"expected a context ({known}), got {name!r}{suggestion(name, list(self.named))}")
        return self.named[name]


def contexts_file() -> Path:
    """Return the path of the file with all contexts."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "octopia" / "contexts.toml"


def load_contexts() -> Contexts:
    """Read the file with all contexts; without one there are none."""
    path = contexts_file()
    if not path.exists():
        return Contexts()
    table = read_toml(path)
    current, below = table.text("current", ""), table.table("contexts")
    named = {} if below is None else {name: _read(below, name) for name in below}
    table.finish()
    return Contexts(current, named)


def _read(tables: Table, name: str) -> Context:
    table = tables.table(name)
    assert table is not None
    urls, ca, below = table.texts("urls"), table.text("ca", ""), table.table("brokers")
    if not urls:
        raise table.wrong("urls", "a list of one or more URLs")
    brokers = {} if below is None else {each: below.text(each) for each in below}
    for url in (*urls, *brokers.values()):
        parse_url(url)
    return Context(urls, brokers, ca)


def save_contexts(contexts: Contexts) -> None:
    """Write the file with all contexts atomically."""
    path = contexts_file()
    lines = [f"current = {_quoted(contexts.current)}"] if contexts.current else []
    for name, context in contexts.named.items():
        lines += ["", f"[contexts.{_quoted(name)}]", f"urls = [{', '.join(map(_quoted, context.urls))}]"]
        if context.ca:
            lines.append(f"ca = {_quoted(context.ca)}")
        if context.brokers:
            lines += ["", f"[contexts.{_quoted(name)}.brokers]"]
            lines += [f"{_quoted(broker)} = {_quoted(url)}" for broker, url in context.brokers.items()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(path)
    except OSError as error:
        raise UsageError(f"expected a file that can be written at {path}, got: {error.strerror}") from None


def _quoted(text: str) -> str:
    return json.dumps(text)  # A JSON string is a TOML string.


def current_context() -> Context | None:
    """Return the context that OCTOPIA_CONTEXT names, or the current one, or None.

    From then on, this command accepts the certificates of its authority, unless OCTOPIA_CA names another.
    """
    named = os.environ.get(VARIABLE)
    contexts = load_contexts()
    name = named or contexts.current
    context = contexts.find(name) if name else None
    if context is not None and context.ca:
        os.environ.setdefault(CA_VARIABLE, context.ca)
    return context


def urls_of(url: str | None) -> list[str]:
    """Return the URLs to try: those given, then those of the context, then the default."""
    if url:
        return [each.strip() for each in url.split(",")]
    context = current_context()
    return [DEFAULT_URL] if context is None else list(context.urls)


def all_urls_of(url: str | None) -> list[str]:
    """Return the URLs to try where any broker will do: after those of the context, all brokers that it knows.

    A command that continues a session of an earlier run needs the same broker each time, and so uses ``urls_of``.
    """
    context = None if url else current_context()
    return urls_of(url) if context is None else list(dict.fromkeys([*context.urls, *context.brokers.values()]))


async def find_urls(url: str | None, broker: str | None) -> list[str]:
    """Return the URLs to try, or the URL of a broker that is given by its name."""
    if not broker:
        return urls_of(url)
    context = None if url else current_context()
    if context is not None and context.brokers:
        if broker not in context.brokers:
            raise _unknown(broker, list(context.brokers), "the context")
        return [url_of(parse_url(context.brokers[broker]), broker)]
    return [await _ask_url(urls_of(url), broker)]


async def find_operated(url: str | None, broker: str | None = None) -> Address:
    """Return the address of a broker to ask: the one that is named, or the first that answers."""
    return await find_first(find_addresses(await find_urls(url, broker) if broker else all_urls_of(url)))


async def find_for_client(url: str | None, broker: str | None = None) -> Address | None:
    """Return the address of a broker that answers the questions of a client, or None if there is none.

    A broker of another machine refuses to answer and logs it, unless the client has a token.
    """
    addresses = find_addresses(await find_urls(url, broker) if broker else all_urls_of(url))
    if not os.environ.get(TOKEN_VARIABLE):
        addresses = tuple([each for each in addresses if await is_here(each)])
    return await find_first(addresses) if addresses else None


async def find_first(addresses: Sequence[Address]) -> Address:
    """Return the first of several brokers that answers; a single one is not asked."""
    return addresses[0] if len(addresses) == 1 else (await _ask_first(addresses))[0]


async def _ask_url(urls: list[str], broker: str) -> str:
    """Ask the first broker that answers for the address of another."""
    _, overlay, addresses = await _ask_first(find_addresses(urls))
    if broker not in addresses:
        raise _unknown(broker, list(addresses), f"the overlay {overlay['name']}")
    return url_of(addresses[broker], broker)


async def _ask_first(asked: Sequence[Address]) -> tuple[Address, dict[str, Any], dict[str, Address]]:
    """Return the first broker that answers, with its overlay and the addresses of all brokers.

    Each is asked when those before it have failed, or have been silent for a while: machines that are down are silent.
    If none answers, the failure of the first is raised.
    """
    begun: dict[asyncio.Task[tuple[dict[str, Any], dict[str, Address]]], Address] = {}
    failures: dict[Address, NetworkError | PeerError] = {}
    rest = iter(asked)
    try:
        while True:
            address = next(rest, None)
            if address is not None:
                begun[asyncio.create_task(ask_overlay(address))] = address
            elif not begun:
                raise failures[asked[0]]
            limit_s = None if address is None else _SILENCE_S
            done, _ = await asyncio.wait(begun, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answered = begun.pop(task)
                try:
                    return answered, *task.result()
                except (NetworkError, PeerError) as error:
                    failures[answered] = error
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


def _unknown(broker: str, known: list[str], where: str) -> UnknownBroker:
    rest = f" and {len(known) - _SHOWN_MAX} more" if len(known) > _SHOWN_MAX else ""
    return UnknownBroker(f"expected a broker of {where} ({', '.join(known[:_SHOWN_MAX])}{rest}), got {broker!r}")
