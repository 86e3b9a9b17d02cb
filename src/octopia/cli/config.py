"""``octopia config``: check an overlay file, and show the settings in force."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from octopia.cli.environment import TABLES, name_of, overrides
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, complete_brokers, complete_toml, find_overlay
from octopia.cli.output import print_json
from octopia.cli.topology import summary
from octopia.errors import UsageError
from octopia.overlay.files import Overlay
from octopia.runtime.defaults import check_delays
from octopia.tomlfile import Table, read_toml


@examples(
    "octopia config check overlay.toml",
    "OCTOPIA_LIMITS_CLIENTS=500 octopia config check overlay.toml",
    "octopia config check overlay.toml --json",
    "octopia config check overlay.toml b.3",
)
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An overlay file (.toml).", autocompletion=complete_toml)
    ],
    brokers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BROKER]...",
            help="The brokers whose certificates are on this machine.",
            show_default="all",
            autocompletion=complete_brokers,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check an overlay file and the files that it names, and show the settings in force.

    The files that it names are certificates, keys and tokens. Each fault is a line on stderr.

    Settings come from the environment (OCTOPIA_ROUTING_..., OCTOPIA_LIMITS_..., OCTOPIA_LOG_...), then from the file,
    then from the defaults. The exit code is 2 if a file or the environment is wrong.
    """
    if file.suffix != ".toml":
        raise UsageError(f"expected an overlay file that ends in .toml, got {file}")
    overlay = find_overlay(str(file))
    for broker in overlay.scot.brokers:
        check_delays(overlay, broker)
    chosen = [str(overlay.scot.broker(name)) for name in brokers or []] or list(map(str, overlay.scot.brokers))
    faults = _faults(overlay, chosen)
    settings = _settings(overlay, read_toml(file))
    if as_json:
        found = {"file": str(file), "name": overlay.name, "brokers": len(overlay.scot.brokers), "faults": faults}
        print_json({**found, **settings})
        raise typer.Exit(2 if faults else 0)
    if faults:
        for fault in faults:
            typer.echo(f"octopia: {fault}", err=True)
        raise typer.Exit(2)
    typer.echo(f"{file} is valid: {summary(overlay.scot)}")
    if overlay.security.has_tls:
        typer.echo(f"the files of [security] are valid for {', '.join(chosen)}")
    for table, values in settings.items():
        typer.echo(f"\n[{table}]")
        for key, found in values.items():
            typer.echo(f"{key} = {json.dumps(found['value'])}  # {found['source']}")


def _faults(overlay: Overlay, brokers: list[str]) -> list[str]:
    if not overlay.security.has_tls:
        return []
    from octopia.security.diagnosis import faults_of

    return faults_of(overlay.security, brokers)


def _settings(overlay: Overlay, file: Table) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the value of each setting and its source."""
    changed = overrides()
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in TABLES:
        values, written = getattr(overlay, name), file.table(name)
        found[name] = {}
        for field in dataclasses.fields(values):
            source = "default"
            if field.name in changed.get(name, {}):
                source = name_of(name, field.name)
            elif written is not None and written.has(field.name):
                source = "file"
            found[name][field.name] = {"value": getattr(values, field.name), "source": source}
    return found
