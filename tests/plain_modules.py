"""Compiled modules from their sources."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import octopia


def plain_module(name: str) -> ModuleType:
    """Return a module as plain Python, even if it is compiled; what it imports stays as installed."""
    source = Path(octopia.__file__).parent.joinpath(*name.split(".")[1:]).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"{name}_as_plain_python", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
