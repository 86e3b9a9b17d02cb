"""The matching index from its sources, even if it is compiled."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import octopia.content
import octopia.matching
from octopia.matching import MatcherFactory
from plain_modules import plain_module

PACKAGE = "octopia.matching"
ENCODED = "octopia.content.encoded"
COMPILED = ("strings", "names", "blocks", "probes", "matched", "offers")


class _Sources(importlib.abc.MetaPathFinder):
    """Finds the modules of the package as Python sources."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        source = Path(octopia.matching.__file__).with_name(f"{fullname.rpartition('.')[2]}.py")
        return importlib.util.spec_from_file_location(fullname, source)


@contextlib.contextmanager
def plain_matching(*, reads_bytes: bool = False) -> Iterator[MatcherFactory]:
    """Yield the index as plain Python, next to the installed one; it ``reads_bytes`` only for tests."""
    installed = {name: module for name, module in sys.modules.items() if name.startswith((PACKAGE, ENCODED))}
    finder = _Sources()
    for name in installed:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    sys.modules[ENCODED] = octopia.content.encoded = plain_module(ENCODED)  # type: ignore[attr-defined]
    try:
        plain = importlib.import_module(PACKAGE)
        for name in ("probes", "offers"):
            sys.modules[f"{PACKAGE}.{name}"].READS_BYTES = reads_bytes  # type: ignore[attr-defined]
        for name in COMPILED:
            assert sys.modules[f"{PACKAGE}.{name}"].__file__.endswith(".py")
        yield plain.INDEX
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
            del sys.modules[name]
        sys.modules.update(installed)
        octopia.matching = installed[PACKAGE]  # type: ignore[assignment]
        octopia.content.encoded = installed[ENCODED]  # type: ignore[attr-defined]


def module_of(matchers: MatcherFactory) -> ModuleType:
    """Return the module of an index, installed or plain."""
    return sys.modules[matchers.subscriptions.__module__]
