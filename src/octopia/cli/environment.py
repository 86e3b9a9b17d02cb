"""Settings from the environment: ``OCTOPIA_LIMITS_CLIENTS=5000`` is ``clients = 5000`` in ``[limits]``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping

TABLES = ("routing", "limits", "log")
"""The tables of an overlay file that the environment may change: those that do not say which overlay it is."""
PLACE = "environment"


def name_of(table: str, key: str) -> str:
    """Return the variable for a key of a table."""
    return f"OCTOPIA_{table}_{key}".upper()


def overrides(environment: Mapping[str, str] | None = None) -> dict[str, dict[str, object]]:
    """Return the settings in the environment, by table and key."""
    found: dict[str, dict[str, object]] = {}
    for name, text in sorted((os.environ if environment is None else environment).items()):
        for table in TABLES:
            prefix = name_of(table, "")
            if name.startswith(prefix) and text:
                found.setdefault(table, {})[name.removeprefix(prefix).lower()] = _value(text)
    return found


def _value(text: str) -> object:
    """Return a TOML value; anything else is a string, so that strings need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
