"""Overlay files: a tree, a number of clusters, the addresses of brokers and the shapes of links.

The same reader serves ``overlay.toml`` and the ``[overlay]`` table of a scenario. Drivers decide how to use addresses
and shapes. docs/overlay-files.md describes every key.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from octopia.addresses import DEFAULT_HOST, DEFAULT_PORT, Address, can_be_resolved
from octopia.errors import InvalidOverlay
from octopia.ids import BrokerId
from octopia.overlay.scot import Link, Scot
from octopia.overlay.trees import default_clusters, parse_tree
from octopia.settings import (
    Algorithm,
    LogFormat,
    LogLevel,
    LogSettings,
    PathSelection,
    ResourceLimits,
    RoutingSettings,
    SecuritySettings,
    TidCopies,
)
from octopia.tomlfile import Table, read_toml

_DEFAULT_LIMITS = ResourceLimits()
_DEFAULT_LOG = LogSettings()
_NO_SECURITY = SecuritySettings()
_TLS_FILES = ("ca", "certificate", "key")
_NETWORK_ROUTING = RoutingSettings()


@dataclasses.dataclass(frozen=True, slots=True)
class LinkShape:
    """The limits of one direction of a link; None is no limit."""

    rate: float | None = None
    """Publications per second."""
    delay_ms: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Overlay:
    """The contents of an overlay file. ``shapes`` has a key (from, to) for every shaped direction of a link."""

    name: str
    scot: Scot
    addresses: Mapping[BrokerId, Address]
    shapes: Mapping[Link, LinkShape]
    routing: RoutingSettings
    limits: ResourceLimits = _DEFAULT_LIMITS
    log: LogSettings = _DEFAULT_LOG
    security: SecuritySettings = _NO_SECURITY


def load_overlay(path: Path, routing: RoutingSettings = _NETWORK_ROUTING) -> Overlay:
    """Read an overlay file; missing keys of ``[routing]`` are as in ``routing``."""
    table = read_toml(path)
    overlay = _read_contents(table, routing)
    security = _read_security(table.table("security"), path.parent)
    table.finish()
    if security.has_tls:
        addresses = {broker: dataclasses.replace(each, speaks_tls=True) for broker, each in overlay.addresses.items()}
        overlay = dataclasses.replace(overlay, addresses=addresses)
    return dataclasses.replace(overlay, security=security)


def read_overlay(table: Table, base_directory: Path, routing: RoutingSettings) -> Overlay:
    """Read an overlay from a table that holds either its keys or ``file``, a path relative to ``base_directory``.

    Missing keys of ``[routing]`` are as in ``routing``. The caller finishes the table.
    """
    if not table.has("file"):
        return _read_contents(table, routing)
    beside = [key for key in table if key != "file"]
    if beside:
        raise table.error(f'expected "file" to be the only key, got also "{beside[0]}"')
    return load_overlay(base_directory / table.text("file"), routing)


def overlay_from_text(tree: str, clusters: int | None = None) -> Overlay:
    """Return the overlay of a tree expression such as ``paper:se`` or ``path:3``."""
    scot = _make_scot(tree, clusters)
    return Overlay(name=tree, scot=scot, addresses=_default_addresses(scot), shapes={}, routing=_NETWORK_ROUTING)


def with_overrides(overlay: Overlay, tables: Mapping[str, Mapping[str, object]], place: str) -> Overlay:
    """Return an overlay with other values in ``[routing]``, ``[limits]`` and ``[log]``; errors begin with ``place``."""
    table = Table(tables, place)
    changed = dataclasses.replace(
        overlay,
        routing=read_routing(table.table("routing"), overlay.routing),
        limits=_read_limits(table.table("limits"), overlay.limits),
        log=_read_log(table.table("log"), overlay.log),
    )
    table.finish()
    return changed


def read_routing(table: Table | None, defaults: RoutingSettings) -> RoutingSettings:
    """Read a ``[routing]`` table; missing keys are as in ``defaults``."""
    if table is None:
        return defaults
    return RoutingSettings(
        algorithm=table.choice("algorithm", Algorithm, defaults.algorithm),
        tau=table.number("tau", defaults.tau, above=0),
        window_ms=table.number("window_ms", defaults.window_ms, above=0),
        confirmations=table.boolean("confirmations", defaults.confirmations),
        path_selection=table.choice("path_selection", PathSelection, defaults.path_selection),
        tid_copies=table.choice("tid_copies", TidCopies, defaults.tid_copies),
        wait_ms=table.number("wait_ms", defaults.wait_ms, above=0),
        hold_ms=table.number("hold_ms", defaults.hold_ms, minimum=0),
        probe_ms=table.number("probe_ms", defaults.probe_ms, above=0),
    )


def _read_limits(table: Table | None, defaults: ResourceLimits = _DEFAULT_LIMITS) -> ResourceLimits:
    """Read a ``[limits]`` table: integers, and rates, which are numbers; missing keys are as in ``defaults``."""
    if table is None:
        return defaults
    given: dict[str, Any] = {
        field.name: table.integer(field.name, getattr(defaults, field.name), minimum=0)
        if isinstance(field.default, int)
        else table.number(field.name, getattr(defaults, field.name), minimum=0)
        for field in dataclasses.fields(ResourceLimits)
    }
    return ResourceLimits(**given)


def _read_log(table: Table | None, defaults: LogSettings = _DEFAULT_LOG) -> LogSettings:
    """Read a ``[log]`` table; missing keys are as in ``defaults``."""
    if table is None:
        return defaults
    return LogSettings(
        format=table.choice("format", LogFormat, defaults.format), level=table.choice("level", LogLevel, defaults.level)
    )


def _read_security(table: Table | None, folder: Path) -> SecuritySettings:
    """Read a ``[security]`` table; paths are relative to the folder of the file."""
    if table is None:
        return _NO_SECURITY
    given = {name: table.text(name, "") for name in (*_TLS_FILES, "client_tokens")}
    missing = [key for key in _TLS_FILES if not given[key]]
    if missing and len(missing) < len(_TLS_FILES):
        raise table.error(f"expected {', '.join(_TLS_FILES)} together, got no {missing[0]}")
    if missing:
        raise table.error(f"expected {', '.join(_TLS_FILES)}, got none: tokens are safe over TLS only")
    return SecuritySettings(**{key: str(folder / path) if path else "" for key, path in given.items()})


def read_broker(table: Table, key: str, scot: Scot) -> BrokerId:
    """Read the name of a broker."""
    return _known_broker(table, table.text(key), scot)


def read_link_ends(table: Table, scot: Scot) -> tuple[Link, ...]:
    """Read ``between`` (both directions of a link) or ``from`` and ``to`` (one) as (sender, receiver) pairs."""
    both = table.has("between")
    one = [key for key in ("from", "to") if table.has(key)]
    if both == bool(one):
        found = "both" if both else "neither"
        raise table.error(f'expected either "between" or "from" and "to", got {found}')
    if both:
        sender, receiver = read_neighbours(table, "between", scot)
        return (sender, receiver), (receiver, sender)
    return (_neighbours(table, (table.text("from"), table.text("to")), scot),)


def read_neighbours(table: Table, key: str, scot: Scot) -> Link:
    """Read a list of two neighbours."""
    return _neighbours(table, table.pair(key), scot)


def read_link_shape(table: Table) -> LinkShape:
    """Read ``rate`` and ``delay_ms``, both optional."""
    return LinkShape(
        rate=table.number("rate", None, above=0),
        delay_ms=table.number("delay_ms", None, minimum=0),
    )


def _read_contents(table: Table, routing: RoutingSettings) -> Overlay:
    tree = table.text("tree")
    clusters = table.integer("clusters", None)
    try:
        scot = _make_scot(tree, clusters)
    except InvalidOverlay as error:
        raise _at(table, error) from None
    return Overlay(
        name=table.text("name", tree),
        scot=scot,
        addresses=_read_addresses(table.table("brokers"), scot),
        shapes=_read_shapes(table.tables("link"), scot),
        routing=read_routing(table.table("routing"), routing),
        limits=_read_limits(table.table("limits")),
        log=_read_log(table.table("log")),
    )


def _make_scot(text: str, clusters: int | None) -> Scot:
    tree = parse_tree(text)
    count = default_clusters(text) if clusters is None else clusters
    if count is None:
        raise InvalidOverlay(
            f'expected a number of clusters with the tree "{text}", got none: add --clusters 3, or clusters = 3'
        )
    return Scot(tree, count)


def _default_addresses(scot: Scot) -> dict[BrokerId, Address]:
    return {broker: Address(DEFAULT_HOST, port) for port, broker in enumerate(scot.brokers, start=DEFAULT_PORT)}


def _read_addresses(table: Table | None, scot: Scot) -> dict[BrokerId, Address]:
    addresses = _default_addresses(scot)
    if table is None:
        return addresses
    for name in table:
        broker = _known_broker(table, name, scot)
        given = table.table(name)
        if given is not None:
            addresses[broker] = _read_address(given, addresses[broker])
    _check_distinct(table, addresses)
    return addresses


def _read_address(table: Table, default: Address) -> Address:
    host = table.text("host", default.host)
    if not host or any(each.isspace() for each in host) or not can_be_resolved(host):
        raise table.wrong("host", "the name or address of a machine")
    if any(each in host for each in ":[]"):
        host = _read_ipv6(table, host)
    return Address(host, table.integer("port", default.port, minimum=1, maximum=65535))


def _read_ipv6(table: Table, host: str) -> str:
    """Return the shortest form of an IPv6 address, so that equal addresses are equal texts."""
    try:
        return str(ipaddress.IPv6Address(host))
    except ValueError:
        raise table.wrong("host", "a name, an IPv4 address or an IPv6 address without brackets or a port") from None


def _check_distinct(table: Table, addresses: dict[BrokerId, Address]) -> None:
    taken: dict[Address, BrokerId] = {}
    for broker, address in addresses.items():
        if address in taken:
            raise table.error(
                f"expected a different address for every broker, got {taken[address]} and {broker} both at {address}"
            )
        taken[address] = broker


def _read_shapes(tables: list[Table], scot: Scot) -> dict[Link, LinkShape]:
    shapes: dict[Link, LinkShape] = {}
    for table in tables:
        ends, shape = read_link_ends(table, scot), read_link_shape(table)
        if shape == LinkShape():
            raise table.error("expected rate or delay_ms, got neither")
        for sender, receiver in ends:
            if (sender, receiver) in shapes:
                raise table.error(f"expected each direction of a link once, got {sender} to {receiver} twice")
            shapes[sender, receiver] = shape
    return shapes


def _known_broker(table: Table, name: str, scot: Scot) -> BrokerId:
    try:
        return scot.broker(name)
    except InvalidOverlay as error:
        raise _at(table, error) from None


def _neighbours(table: Table, names: tuple[str, str], scot: Scot) -> Link:
    sender, receiver = (_known_broker(table, name, scot) for name in names)
    try:
        scot.link_kind(sender, receiver)
    except InvalidOverlay as error:
        raise _at(table, error) from None
    return sender, receiver


def _at(table: Table, error: InvalidOverlay) -> InvalidOverlay:
    """Return the error with the place in the file in front."""
    return type(error)(f"{table.place}: {error}")
