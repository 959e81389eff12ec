"""Commands from functions: what a parameter is called and may be stands in its annotation, once.

    def explain(event: Annotated[int | None, Option(help="Row of the event.")] = None, …)

The parsing itself is click's, of any version since 8.1. A command's module is imported when it is called, not to list
it in the help of others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import click

from cody.cli import messages, progress
from cody.cli.messages import wrapped
from cody.errors import did_you_mean
from cody.utils import start as _start
from cody.utils import words

if TYPE_CHECKING:
    AnyType = click.ParamType[Any, Any]
    AnyChoice = click.Choice[str]
else:
    AnyType, AnyChoice = click.ParamType, click.Choice  # they take no parameters before click 8.2

LARGE = 10**9  # nobody reaches such a limit by accident
VERBOSITY = "cody.verbosity"  # where a context has it
HELP = {"help_option_names": ["-h", "--help"]}
Function = TypeVar("Function", bound=Callable[..., None])
Groups = Mapping[str, str]  # the title of a group of options → the parameters in it, with blanks between
Examples = Mapping[str, str]  # a command → what it does


class Written(NamedTuple):
    """What an option writes, and how the names of such files end. A folder has no ending."""

    what: str
    endings: tuple[str, ...] = ()


FOLDER = Written("a folder")
PAGE = Written("a page", (".html", ".htm"))
LINES = Written("lines of JSON", (".jsonl", ".json", ".ndjson", ".txt", ".gz"))  # .gz is refused with its own reason
TABLE = Written("a table", (".csv", ".parquet"))

# Endings that say what a file is. One that is not listed may mean anything.
ENDINGS = frozenset(
    (
        *(".html", ".htm", ".jsonl", ".json", ".ndjson", ".txt", ".csv", ".tsv", ".parquet", ".xlsx", ".gz", ".zip"),
        *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf", ".md", ".tex", ".py", ".ipynb", ".toml", ".yaml"),
        *(".npy", ".npz", ".pt", ".pth", ".ckpt", ".safetensors", ".pkl"),
    )
)


class Option(NamedTuple):
    """A parameter that is given as `--name value`, or as `--name` alone if it is a bool; a list is repeatable."""

    name: str = ""  # "": as the parameter is called
    help: str = ""
    min: float | None = None
    max: float | None = None
    metavar: str | None = None
    show_default: str | None = None  # how help writes the default
    writes: Written | None = None  # of a path: what is written there; None: it is read


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
        arguments = [(each.human_readable_name, each.about) for each in self.params if isinstance(each, _Positional)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        rows = {each.name: row for each in options if (row := each.get_help_record(ctx)) is not None}
        for title, names in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([rows.pop(name) for name in names.split()])
        with formatter.section("Other options" if self.groups else "Options"):
            formatter.write_dl(list(rows.values()))

    def invoke(self, ctx: click.Context) -> Any:
        with messages.logged(ctx.meta.get(VERBOSITY, 0)), progress.command(ctx.command_path):
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
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            known = did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f"No such command {name!r}{known}", ctx)
        return super().resolve_command(ctx, args)

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
    """Where a call is not understood, the message repeats no more of it than a person can read.

    It is the same with every version of click, except for the words of its own checks.
    """
    try:
        yield
    except click.NoSuchOption as error:
        given = error.option_name if len(error.option_name) > 2 else f"-{error.option_name.lstrip('-')}"
        known = [] if error.ctx is None else [name for each in error.ctx.command.params for name in each.opts]
        similar = did_you_mean(given, [name for name in known if name.startswith("--")])
        message = f"No such option {given!r}{similar if 'did you mean' in similar else ''}"
        raise click.UsageError(_as_lines(message), error.ctx) from None
    except click.UsageError as error:
        if error.ctx is not None and error.message == error.ctx.get_help():  # nothing was given
            raise
        raise click.UsageError(_as_lines(error.format_message()), error.ctx) from None


def _as_lines(message: str) -> str:
    return wrapped("\n".join(words.sanitize(line, 300) for line in message.split("\n")), beside="Error: ")


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
        params=[*parameters, verbose_option()],
        help=function.__doc__,
        context_settings=HELP,
    )


def verbose_option() -> click.Option:
    """`-v`, which every command has, and the command line as such: `cody -v explain` and `cody explain -v`."""

    def remember(ctx: click.Context, param: click.Parameter, value: int) -> None:
        ctx.meta[VERBOSITY] = ctx.meta.get(VERBOSITY, 0) + value

    text = "Log what is done; -vv: in detail."
    return click.Option(["-v", "--verbose"], count=True, expose_value=False, callback=remember, help=text)


def _parameter(parameter: inspect.Parameter, hint: Any) -> click.Parameter:
    """What click calls a parameter, from `Annotated[type, Option or Argument]` and the default."""
    kind, about = get_args(hint)
    (kind,) = [part for part in get_args(kind) if part is not NoneType] if _is_optional(kind) else [kind]
    many = get_origin(kind) is list
    (kind,) = get_args(kind) if many else (kind,)
    required = parameter.default is inspect.Parameter.empty
    if isinstance(about, Argument):
        return _Positional(parameter.name, about=about.help, many=many, required=required, type=_type(kind))
    words_ = [about.name or f"--{parameter.name.replace('_', '-')}", parameter.name]
    if kind is bool:
        return click.Option(words_, is_flag=True, default=False, help=about.help)
    default = {} if required or many else {"default": parameter.default}  # with a default, nothing is missing
    return click.Option(
        words_,
        type=_type(kind, about.min, about.max) if about.writes is None else _Output(about.writes),
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


def _type(kind: type, least: float | None = None, most: float | None = None) -> AnyType:
    if issubclass(kind, Enum):
        return _Choice(kind)
    if kind is Path:
        return click.Path(path_type=Path)
    if (least, most) == (None, None):
        return click.types.convert_type(kind)
    return _Whole(_whole(least), _whole(most)) if kind is int else _Number(least, most)


def _whole(limit: float | None) -> int | None:
    return None if limit is None else int(limit)


class _Positional(click.Argument):
    """An argument with a line of help; click has its own since 8.5."""

    def __init__(self, name: str, *, about: str, many: bool, required: bool, **options: Any) -> None:
        shown = name.upper() if required else f"[{name.upper()}]"
        shown += "..." if many else ""
        super().__init__([name], metavar=shown, nargs=-1 if many else 1, required=required, **options)
        self.about = about


class _Output(click.Path):
    """A file or folder that is written. A name that says it is something else is surely a mistake."""

    def __init__(self, written: Written) -> None:
        super().__init__(path_type=Path)
        self.written = written

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        ending, usual = path.suffix.lower(), self.written.endings
        if ending in ENDINGS - {*usual} and not path.is_dir():
            advice = f"give a name that ends in {' or '.join(usual[:2])}" if usual else "leave the ending out"
            self.fail(f"{str(value)!r} ends in {ending}, but it will be {self.written.what}: {advice}", param, ctx)
        return path


class _Choice(AnyChoice):
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
