"""``octopia context``: named overlays, so that brokers are addressed by name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.contexts import Context, Contexts, contexts_file, load_contexts, save_contexts
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, complete_toml
from octopia.cli.output import count_of, print_json
from octopia.client.urls import parse_url, url_of
from octopia.errors import UsageError


def complete_contexts() -> list[str]:
    """Return the names of all contexts."""
    return list(load_contexts().named)


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a context.", autocompletion=complete_contexts)]


@examples(
    "octopia context add local --broker-url octopia://127.0.0.1:7400",
    "octopia context add market overlay.toml",
)
def add(
    name: Name,
    overlay: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="An overlay file, which has the address of every broker.",
            autocompletion=complete_toml,
        ),
    ] = None,
    broker_url: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="URL of a broker of the overlay; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a named overlay, or replace it.

    The first context becomes the current one. With an overlay file, `-b b.3` finds each broker wherever it runs, and
    the authority of the overlay's certificates is known. With
    URLs only, a broker of the overlay is asked for the addresses of the others, which it answers on its own machine.
    """
    if bool(broker_url) == (overlay is not None):
        raise UsageError("expected either an overlay file or --broker-url, got " + ("both" if overlay else "neither"))
    context = _of_urls(broker_url or []) if overlay is None else _of_overlay(overlay)
    contexts = load_contexts()
    named = {**contexts.named, name: context}
    save_contexts(Contexts(contexts.current or name, named))
    _show(load_contexts(), as_json=as_json)


def _of_urls(urls: list[str]) -> Context:
    for url in urls:
        parse_url(url)
    return Context(tuple(urls))


def _of_overlay(file: Path) -> Context:
    from octopia.overlay.files import load_overlay

    overlay = load_overlay(file)
    brokers = {str(broker): url_of(address) for broker, address in overlay.addresses.items()}
    ca = str(Path(overlay.security.ca).absolute()) if overlay.security.has_tls else ""
    return Context((next(iter(brokers.values())),), brokers, ca)


@examples("octopia context use market", "OCTOPIA_CONTEXT=market octopia status")
def use(name: Name, as_json: AsJson = False) -> None:
    """Make a context the current one.

    Commands without --url then use it. The environment variable OCTOPIA_CONTEXT overrides it.
    """
    contexts = load_contexts()
    contexts.find(name)
    save_contexts(dataclasses.replace(contexts, current=name))
    _show(load_contexts(), as_json=as_json)


@examples("octopia context list", "octopia context list --json")
def show(as_json: AsJson = False) -> None:
    """List the contexts and their URLs."""
    _show(load_contexts(), as_json=as_json)


@examples("octopia context remove market")
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a context."""
    contexts = load_contexts()
    contexts.find(name)
    named = {each: context for each, context in contexts.named.items() if each != name}
    save_contexts(Contexts("" if contexts.current == name else contexts.current, named))
    _show(load_contexts(), as_json=as_json)


def _show(contexts: Contexts, *, as_json: bool) -> None:
    if as_json:
        shown = {
            name: {"urls": list(each.urls), "brokers": dict(each.brokers), "ca": each.ca or None}
            for name, each in contexts.named.items()
        }
        print_json({"current": contexts.current or None, "contexts": shown, "file": str(contexts_file())})
        return
    if not contexts.named:
        typer.echo("no contexts; add one with: octopia context add NAME FILE")
    for name, each in contexts.named.items():
        known = f", {count_of(len(each.brokers), 'brokers')}" if each.brokers else ""
        typer.echo(f"{'*' if name == contexts.current else ' '} {name}: {', '.join(each.urls)}{known}")
