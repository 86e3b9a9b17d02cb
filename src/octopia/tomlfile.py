"""A strict reader of TOML files, used for overlay, scenario and other files.

``read_toml`` returns the top table of a file. Its getters check types and limits, and raise errors that name the place.
A table remembers the keys that were read, so that ``finish`` can refuse all others: a misspelt key is an error and
never silently ignored. Finishing a table finishes the tables below it that were read.

The callers interpret the values.
"""

from __future__ import annotations

import difflib
import enum
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from octopia.errors import InvalidFile

Default = TypeVar("Default")
Choice = TypeVar("Choice", bound=enum.StrEnum)


class Required(enum.Enum):
    """The type of ``REQUIRED``."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED
"""In place of a default value: the key is required."""

INTEGER_MAX: Final = 2**63 - 1
"""The largest integer of TOML; compiled modules count in 64 bits."""


def read_toml(path: Path) -> Table:
    """Read a TOML file, and return its top table."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InvalidFile(f"expected a file at {path}, got none") from None
    except IsADirectoryError:
        raise InvalidFile(f"expected a file at {path}, got a directory") from None
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path.name}: expected UTF-8, got the byte {error.object[error.start]:#04x}") from None
    except OSError as error:
        raise InvalidFile(f"expected a readable file at {path}, got: {error.strerror}") from None
    return Table(_parse(text, path.name), path.name)


def _parse(text: str, name: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile(_syntax_error(str(error), text, name)) from None
    except RecursionError:
        raise InvalidFile(f"{name}: expected TOML, got values that are nested too deeply") from None
    except ValueError as error:  # an integer with more digits than Python converts
        raise InvalidFile(f"{name}: expected TOML, got a number out of range ({error})") from None


_AT = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z")


def _syntax_error(message: str, text: str, name: str) -> str:
    """Return tomllib's message with its place at the start, and "end of document" as a line and a column."""
    place = _AT.search(message)
    if place is None:
        return f"{name}: expected TOML, got: {message}"
    line = int(place["line"] or text.count("\n") + 1)
    column = int(place["column"] or len(text) - text.rfind("\n"))
    return f"{name}, line {line}, column {column}: expected TOML, got: {message[: place.start()]}"


class Table:
    """One table of a file, with its place in the file.

    Getters raise ``InvalidFile`` for a value of another type, and for a missing key that has no default.
    """

    def __init__(self, values: Mapping[str, object], place: str, header: str = ""):
        """Wrap ``values``; errors begin with ``place``, and ``header`` is the dotted name within the file."""
        self.place = place
        self._values = values
        self._header = header
        self._asked: dict[str, None] = {}
        self._taken: list[Table] = []

    def __iter__(self) -> Iterator[str]:
        """Iterate over all keys in file order, for tables whose keys are names."""
        return iter(self._values)

    def has(self, key: str) -> bool:
        """Return whether the key exists."""
        self._asked[key] = None
        return key in self._values

    def raw(self, key: str, default: Default | Required = REQUIRED) -> object | Default:
        """Return the value as ``tomllib`` reads it."""
        return self._values[key] if self.has(key) else self._default(key, default)

    def text(self, key: str, default: Default | Required = REQUIRED) -> str | Default:
        """Return a string."""
        if not self.has(key):
            return self._default(key, default)
        value = self._values[key]
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def boolean(self, key: str, default: Default | Required = REQUIRED) -> bool | Default:
        """Return a boolean."""
        if not self.has(key):
            return self._default(key, default)
        value = self._values[key]
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def integer(
        self,
        key: str,
        default: Default | Required = REQUIRED,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> int | Default:
        """Return an integer within inclusive limits, and within TOML's 64 bits."""
        if not self.has(key):
            return self._default(key, default)
        value = self._values[key]
        wanted = f"an integer{_limits(minimum=minimum, maximum=maximum)}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, wanted)
        if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            raise self.wrong(key, wanted)
        if abs(value) > INTEGER_MAX:
            raise self.wrong(key, "an integer of 64 bits")
        return value

    def number(
        self,
        key: str,
        default: Default | Required = REQUIRED,
        *,
        above: float | None = None,
        minimum: float | None = None,
    ) -> float | Default:
        """Return a finite number that is ``above`` a limit, or at least ``minimum``."""
        if not self.has(key):
            return self._default(key, default)
        value = self._values[key]
        wanted = f"a finite number{_limits(above=above, minimum=minimum)}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(_as_float(value)):
            raise self.wrong(key, wanted)
        if (above is not None and value <= above) or (minimum is not None and value < minimum):
            raise self.wrong(key, wanted)
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; it is empty if the key is missing."""
        value = self.raw(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, "a list of strings")
        return tuple(value)

    def pair(self, key: str) -> tuple[str, str]:
        """Return a list of exactly two strings."""
        match self.raw(key):
            case [str(first), str(second)]:
                return first, second
            case _:
                raise self.wrong(key, "a list of two strings")

    def choice(self, key: str, choices: type[Choice], default: Default | Required = REQUIRED) -> Choice | Default:
        """Return the member of an enumeration with this value."""
        if not self.has(key):
            return self._default(key, default)
        value = self._values[key]
        names = [each.value for each in choices]
        if not isinstance(value, str) or value not in names:
            raise self.wrong(key, f"one of {', '.join(names)}", suggestion(value, names))
        return choices(value)

    def table(self, key: str) -> Table | None:
        """Return a table, or None if the key is missing."""
        value = self.raw(key, None)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        header = self._header_of(key)
        return self._take(Table(value, self._place_of(f"[{header}]"), header))

    def tables(self, key: str) -> list[Table]:
        """Return an array of tables; it is empty if the key is missing."""
        value = self.raw(key, [])
        header = self._header_of(key)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(key, f"an array of tables, written [[{header}]]")
        # A dotted name would not tell the tables apart, so the names below a numbered table start again.
        return [
            self._take(Table(each, self._place_of(f"[[{header}]] number {number}")))
            for number, each in enumerate(value, start=1)
        ]

    def finish(self) -> None:
        """Raise ``InvalidFile`` for a key that was not read, here or in the tables below that were read."""
        known = sorted(self._asked)
        for key in self._values:
            if key not in self._asked:
                raise self.error(
                    f'expected one of the keys {", ".join(known) or "(none)"}, got "{key}"{suggestion(key, known)}'
                )
        for taken in self._taken:
            taken.finish()

    def error(self, sentence: str) -> InvalidFile:
        """Return an error about this table."""
        return InvalidFile(f"{self.place}: {sentence}")

    def wrong(self, key: str, expected: str, hint: str = "") -> InvalidFile:
        """Return an error about the value of ``key``, which is not what was ``expected``."""
        return self.error(f"expected {key} to be {expected}, got {describe(self._values.get(key))}{hint}")

    def _take(self, table: Table) -> Table:
        self._taken.append(table)
        return table

    def _header_of(self, key: str) -> str:
        bare = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"'
        return f"{self._header}.{bare}" if self._header else bare

    def _place_of(self, shown: str) -> str:
        """Return the place of a table below this one, with its header in place of this one's."""
        return f"{self.place.removesuffix(f', [{self._header}]')}, {shown}"

    def _default(self, key: str, default: Default | Required) -> Default:
        if not isinstance(default, Required):
            return default
        unknown = [each for each in self._values if each not in self._asked]
        slips = difflib.get_close_matches(key, unknown, n=1)
        hint = f' (is "{slips[0]}" a typo?)' if slips else ""
        raise self.error(f'expected the key "{key}", got none{hint}')


def suggestion(given: object, known: list[str]) -> str:
    """Return " (did you mean …?)" if ``given`` is similar to one of ``known``, else an empty string."""
    found = difflib.get_close_matches(str(given), known, n=1)
    return f' (did you mean "{found[0]}"?)' if found else ""


def describe(value: object) -> str:
    """Return a short description of a value in TOML terms."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _shortened(str(value))
        case str():
            return f'the string "{_shortened(value)}"'
        case list():
            return "a list of tables" if value and all(isinstance(each, dict) for each in value) else "a list"
        case dict():
            return "a table"
        case None:
            return "nothing"
        case _:
            return "a date or time"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _limits(*, above: float | None = None, minimum: float | None = None, maximum: float | None = None) -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum:g} to {maximum:g}"
    if minimum is not None:
        return f" of at least {minimum:g}"
    if maximum is not None:
        return f" of at most {maximum:g}"
    return "" if above is None else f" above {above:g}"
