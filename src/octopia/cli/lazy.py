"""Commands that are imported when they are called, so that each loads only what it needs.

A group holds a stub per command: its name, a line of help, and where the function is. Help and completion of the group
need no more than that.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

MARKUP: Literal["markdown"] = "markdown"

Function = TypeVar("Function", bound=Callable[..., Any])


def examples(*lines: str) -> Callable[[Function], Function]:
    """Give a command's function the examples that its help shows."""

    def attach(function: Function) -> Function:
        function.__dict__["examples"] = lines
        return function

    return attach


def show_examples(*lines: str) -> str:
    """Return examples as text below the help of a command."""
    return "\n\n".join(["Examples:", *lines])


class _PlainReader:
    """Reads the values of a parameter that need no conversion, and leaves all others to typer.

    These are missing values, defaults, which are not strings, and strings for a parameter that takes strings.
    """

    def __init__(self, build: Callable[[], Any], annotation: Any):
        self._build = build
        self._takes_text = annotation in (str, list[str])

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """Return a value as the command's function gets it."""
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        if is_many and self._takes_text and not isinstance(value, str):
            return list(value)
        if not is_many and param.nargs == 1 and (self._takes_text or not isinstance(value, str)):
            return value
        try:
            return self._build().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's own words
            raise


def _read_plainly(parameters: list[Any]) -> list[Any]:
    """Let parameters be read without pydantic where they can: importing that takes a third of a command's start.

    Versions of typer without pydantic have no such method, and are left as they are.
    """
    for each in parameters:
        if hasattr(each, "get_runtime_param") and "get_runtime_param" not in vars(each):
            reader = _PlainReader(each.get_runtime_param, each.type_descriptor.annotation)
            each.get_runtime_param = functools.partial(_same, reader)
    return parameters


def _same(reader: _PlainReader) -> _PlainReader:
    return reader


class _PlainCommand(TyperCommand):
    """A command that is imported."""

    def get_params(self, ctx: Any) -> Any:
        """Return the arguments and the options of the command."""
        return _read_plainly(super().get_params(ctx))


class Stub(TyperCommand):
    """A command that is not imported yet; ``source`` is ``module:function`` below ``octopia.cli``."""

    def __init__(self, source: str, **attributes: Any):
        super().__init__(rich_markup_mode=MARKUP, **attributes)
        self.source = source

    def load(self) -> Any:
        """Import the function, and return the whole command."""
        module, _, name = self.source.partition(":")
        function = getattr(importlib.import_module(f"octopia.cli.{module}"), name)
        app = typer.Typer(rich_markup_mode=MARKUP, add_completion=False)
        app.command(self.name, cls=_PlainCommand, epilog=show_examples(*function.examples))(function)
        return typer.main.get_command(app)

    def alias(self, group: str) -> Stub:
        """Return a hidden command of the same name outside its group."""
        return Stub(self.source, name=self.name, help=f"The same as octopia {group} {self.name}.", hidden=True)


class LazyGroup(TyperGroup):
    """A group that imports a command when it is called."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options of the group."""
        return _read_plainly(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Stub) else command, rest


def command(name: str, source: str, help: str, *, panel: str | None = None, hidden: bool = False) -> Stub:  # noqa: A002
    """Describe a command."""
    return Stub(source, name=name, help=help, rich_help_panel=panel, hidden=hidden)


def group(name: str, help: str, *commands: Stub, panel: str, example: str) -> LazyGroup:  # noqa: A002
    """Describe a group of commands."""
    return LazyGroup(
        name=name,
        help=help,
        commands=commands,
        epilog=show_examples(example),
        rich_help_panel=panel,
        no_args_is_help=True,
        rich_markup_mode=MARKUP,
    )
