"""Commands from functions: what a parameter is called and may be stands in its annotation, once.

    def explain(event: Annotated[int | None, Option(help="Row of the event.")] = None, …)

The parsing itself is click's. A command's module is imported when it is called, not to list it in the help of others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import click

from cody import _start, words
from cody.cli import progress

LARGE = 10**9  # nobody reaches such a limit by accident
HELP = {"help_option_names": ["-h", "--help"]}
Function = TypeVar("Function", bound=Callable[..., None])
Groups = Mapping[str, str]  # the title of a group of options → the parameters in it, with blanks between
Examples = Mapping[str, str]  # a command → what it does


class Option(NamedTuple):
    """A parameter that is given as `--name value`, or as `--name` alone if it is a bool; a list is repeatable."""

    name: str = ""  # "": as the parameter is called
    help: str = ""
    min: float | None = None
    max: float | None = None
    metavar: str | None = None
    show_default: str | None = None  # how help writes the default


class Argument(NamedTuple):
    """A parameter that is given by its place; a list takes all that follow."""

    help: str = ""


class Listed(NamedTuple):
    """A command as help lists it, before it is imported."""

    module: str
    summary: str


class Command(click.Command):
    """A command whose help has its options in groups, and examples."""

    def __init__(self, *arguments: Any, groups: Groups, examples: Examples, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.groups, self.examples = groups, examples
        known = {parameter.name for parameter in self.params}
        for name in (name for names in groups.values() for name in names.split()):
            assert name in known, f"{self.name} has no parameter {name}"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = {each.name: row for each in self.get_params(ctx) if (row := each.get_help_record(ctx)) is not None}
        for title, names in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([rows.pop(name) for name in names.split()])
        with formatter.section("Other options" if self.groups else "Options"):
            formatter.write_dl(list(rows.values()))

    def invoke(self, ctx: click.Context) -> Any:
        with progress.command(ctx.command_path):
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


class Commands(click.Group):
    """A group of commands, in the order in which they are listed."""

    def __init__(
        self, name: str, help: str, listed: Mapping[str, Listed] | None = None, examples: Examples | None = None
    ) -> None:
        super().__init__(name, help=help, no_args_is_help=True, context_settings=HELP)
        self.listed, self.examples = listed or {}, examples or {}

    def command(  # type: ignore[override]
        self, name: str | None = None, *, groups: Groups | None = None, examples: Examples | None = None
    ) -> Callable[[Function], Function]:
        """Make a function a command of this group; the function stays what it was."""

        def register(function: Function) -> Function:
            self.add_command(_command(function, name or function.__name__, groups or {}, examples or {}))
            return function

        return register

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.listed or self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.listed:
            import_module(self.listed[cmd_name].module)
            _start.end()
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:  # click suggests those that are imported already
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.listed:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.listed.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _readable_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _readable_errors():
            return super().invoke(ctx)


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Where a call is not understood, the message repeats no more of it than a person can read."""
    try:
        yield
    except click.ClickException as error:
        error.message = "\n".join(words.plain(line, 300) for line in error.message.split("\n"))  # type: ignore[misc]
        raise


def _write_examples(examples: Examples, formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for command, purpose in examples.items():
                formatter.write(f"{'':>{formatter.current_indent}}{command}\n")
                formatter.write(f"{'':>{formatter.current_indent}}    {purpose}\n")


def _command(function: Callable[..., None], name: str, groups: Groups, examples: Examples) -> click.Command:
    hints = get_type_hints(function, include_extras=True)
    parameters = [_parameter(each, hints[each.name]) for each in inspect.signature(function).parameters.values()]
    return Command(
        name,
        groups=groups,
        examples=examples,
        callback=function,
        params=parameters,
        help=function.__doc__,
        context_settings=HELP,
    )


def _parameter(parameter: inspect.Parameter, hint: Any) -> click.Parameter:
    """What click calls a parameter, from `Annotated[type, Option or Argument]` and the default."""
    kind, about = get_args(hint)
    (kind,) = [part for part in get_args(kind) if part is not NoneType] if _is_optional(kind) else [kind]
    many = get_origin(kind) is list
    (kind,) = get_args(kind) if many else (kind,)
    required = parameter.default is inspect.Parameter.empty
    if isinstance(about, Argument):
        places = -1 if many else 1
        return click.Argument([parameter.name], type=_type(kind), nargs=places, required=True, help=about.help)
    words_ = [about.name or f"--{parameter.name.replace('_', '-')}", parameter.name]
    if kind is bool:
        return click.Option(words_, is_flag=True, default=False, help=about.help)
    default = {} if required or many else {"default": parameter.default}  # with a default, nothing is missing
    return click.Option(
        words_,
        type=_type(kind, about.min, about.max),
        required=required,
        multiple=many,
        help=about.help,
        metavar=about.metavar or _metavar(kind),
        show_default=about.show_default or (not required and parameter.default not in (None, "")),
        **default,
    )


def _is_optional(hint: Any) -> bool:
    return NoneType in get_args(hint)


def _metavar(kind: type) -> str:
    return f"<{'|'.join(kind) if issubclass(kind, Enum) else kind.__name__.lower()}>"


def _type(kind: type, least: float | None = None, most: float | None = None) -> click.ParamType[Any, Any]:
    if issubclass(kind, Enum):
        return _Choice(kind)
    if kind is Path:
        return click.Path(path_type=Path)
    if (least, most) == (None, None):
        return click.types.convert_type(kind)
    return _Whole(_whole(least), _whole(most)) if kind is int else _Number(least, most)


def _whole(limit: float | None) -> int | None:
    return None if limit is None else int(limit)


class _Choice(click.Choice[str]):
    """One of the values of an enumeration."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__([member.value for member in kind])
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.kind(super().convert(value, param, ctx))


class _Whole(click.IntRange):
    def _describe_range(self) -> str:
        goes_without_saying = self.max is None or self.max > LARGE  # at least 0 or 1
        return "" if goes_without_saying else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _within(self, click.INT.convert(value, param, ctx), param, ctx)


class _Number(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _within(self, click.FLOAT.convert(value, param, ctx), param, ctx)


def _within(
    limits: click.IntRange | click.FloatRange, value: float, param: click.Parameter | None, ctx: click.Context | None
) -> float:
    if limits.min is not None and not value >= limits.min:  # also not a number
        limits.fail(f"{value} is not greater than or equal to {limits.min}", param, ctx)
    if limits.max is not None and not value <= limits.max:
        limits.fail(f"{value} is not less than or equal to {limits.max}", param, ctx)
    return value
