"""What click leaves to us: help in sections with examples, one way to report a wrong call, and types of options.

A command is a function under `@command`, `@option` and the decorators of `cody.cli.options`:

    @command("view", examples={"cody view why.json": "one page"})
    @option("--open", "open_", is_flag=True, help="Show the page in the browser.")
    def view(open_: bool) -> None: …

A command with many options gets them as one object: `@bundled("options", ViewOptions)`, a dataclass whose fields
say what each option is (`option_fields`, `given_by`).

It works with every click since 8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, field, fields
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cody.cli import messages, progress
from cody.errors import CallError, closest, did_you_mean
from cody.utils import start, words

if TYPE_CHECKING:
    AnyType = click.ParamType[Any, Any]
else:
    AnyType = click.ParamType  # it takes no parameters before click 8.2

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]

VERBOSITY = "cody.verbosity"  # where a context has it
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "show_default": True}


class Command(click.Command):
    """A command whose help has its options in sections, and examples: a command → what it does."""

    def __init__(self, *arguments: Any, examples: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **{"context_settings": SETTINGS, **settings})
        self.examples = examples or {}
        self.params.append(verbose_option())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            row = (each.human_readable_name, each.about) if isinstance(each, Argument) else each.get_help_record(ctx)
            if row is not None:
                sections.setdefault(getattr(each, "section", ""), []).append(row)
        others = sections.pop("", [])
        for title, rows in (*sections.items(), ("Other options" if len(sections) > 1 else "Options", others)):
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with messages.logged(ctx.meta.get(VERBOSITY, 0)), progress.command(ctx.command_path):
                return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line
            messages.stop()


class Option(click.Option):
    """An option in a section of the help."""

    def __init__(self, *arguments: Any, section: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class Argument(click.Argument):
    """An argument with a line of help; click has its own since 8.5."""

    section = "Arguments"

    def __init__(self, names: list[str], *, about: str, **settings: Any) -> None:
        name, many = settings.pop("metavar", names[0].upper()), settings.get("nargs") == -1
        shown = f"[{name}]" if many and not settings.get("required") else name
        super().__init__(names, metavar=shown + ("..." if many else ""), **settings)
        self.about = about


class Renamed(click.Option):
    """The former name of an option, which still works, and says what the option is called now."""

    def __init__(self, names: list[str], *, now: str, parameter: str, **settings: Any) -> None:
        super().__init__(names, hidden=True, expose_value=False, is_eager=True, default=None, **settings)
        self.now, self.parameter = now, parameter

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        given = opts.get(self.name or "")
        if given is not None and isinstance(opts, dict):
            messages.say(f"{self.opts[0]} is deprecated; use {self.now}", before="warning: ")
            opts.setdefault(self.parameter, given)
        return None, args


def option(*names: str, section: str = "", was: str = "", **settings: Any) -> Decorator[Any]:
    """An option in a section of the help. `was`: its former name, which still works for one version."""

    def decorate(function: Function) -> Function:
        if was:
            kept = {name: settings[name] for name in ("type", "is_flag", "multiple") if name in settings}
            parameter = names[-1].lstrip("-").replace("-", "_")
            function = click.option(was, cls=Renamed, now=names[0], parameter=parameter, **kept)(function)
        return click.option(*names, cls=Option, section=section, **settings)(function)

    return decorate


def section(title: str) -> Callable[..., Decorator[Any]]:
    """What makes options of one section of the help."""
    return partial(option, section=title)


def argument(name: str, about: str, **settings: Any) -> Decorator[Any]:
    return click.argument(name, cls=Argument, about=about, **settings)


def option_fields(title: str) -> Callable[..., Any]:
    """What makes fields of a dataclass (`bundled`) whose values are given by options of their names, in one section.

    A field begins with its line of help. Its type says what the option takes: a bool is a flag, an int a number from
    1 on, and options of several texts can be repeated.
    """

    def given(about: str, **settings: Any) -> Any:
        def of_field(each: Field[Any]) -> Decorator[Any]:
            kind = str(each.type)
            implied = TAKEN.get(kind) or TAKEN.get(kind.removesuffix(" | None"), {})
            return option(option_name(each.name), section=title, help=about, **(implied | settings))

        return field(metadata={"option": of_field})

    return given


def option_name(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


def given(options: Any, *names: str) -> list[str]:
    """Those of the options of a dataclass (`bundled`) that are given: all of its fields, or those of some names."""
    values = {name: getattr(options, name) for name in names or [each.name for each in fields(options)]}
    return [option_name(name) for name, value in values.items() if value not in (None, "", ()) and value is not False]


def refuse(what: str, others: Mapping[str, bool]) -> None:
    """Refuse options that do not go with another one.

    Args:
        what: What the other one is about.
        others: The options, and whether each is given.
    """
    for option_ in (name for name, is_given in others.items() if is_given):
        raise CallError(f"{what}: leave out {option_}")


def given_by(shared: Decorator[Any]) -> Any:
    """A field of a dataclass (`bundled`) whose value is given by an option that several commands have."""
    return field(metadata={"option": lambda _: shared})


def bundled(name: str, kind: type, *options: Decorator[Any]) -> Decorator[Any]:
    """A decorator that adds options to a command, which gets them as one object: `name`, of a dataclass.

    Without `options`, they are those of its fields.
    """
    names = [each.name for each in fields(kind)]
    options = options or tuple(each.metadata["option"](each) for each in fields(kind))

    def decorate(function: Function) -> Function:
        @wraps(function)
        def called(**given: Any) -> Any:
            values = {each: given.pop(each) for each in names}
            return function(**given, **{name: kind(**values)})

        decorated: Any = called
        for each in reversed(options):
            decorated = each(decorated)
        return decorated

    return decorate


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    return click.command(name, cls=Command, **settings)


class CommandGroup(click.Group):
    """A group of commands. Those with a summary have a module of their own, which is imported when one is called."""

    command_class = Command

    def __init__(
        self, *arguments: Any, summaries: Mapping[str, str] | None = None, examples: Any = (), **settings: Any
    ) -> None:
        super().__init__(*arguments, **{"no_args_is_help": True, "context_settings": SETTINGS, **settings})
        self.summaries, self.examples = summaries or {}, dict(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries or self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.summaries:
            return super().get_command(ctx, cmd_name)
        module = cmd_name.replace("-", "_")
        found: click.Command = getattr(import_module(f"cody.cli.{module}"), module)
        start.end()
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}{did_you_mean(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.summaries:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        with _readable_errors():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        with _readable_errors():
            return super().invoke(ctx)


def write_examples(examples: Mapping[str, str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for line, purpose in examples.items():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
                formatter.write(f"{'':>{formatter.current_indent}}    {purpose}\n")


def verbose_option() -> click.Option:
    """`-v`, which every command has, and the command line as such: `cody -v explain` and `cody explain -v`."""

    def remember(ctx: click.Context, param: click.Parameter, value: int) -> None:
        ctx.meta[VERBOSITY] = ctx.meta.get(VERBOSITY, 0) + value

    text = "Log what is done; -vv for details."
    return click.Option(
        ["-v", "--verbose"], count=True, expose_value=False, callback=remember, help=text, show_default=False
    )


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Where a call is not understood, the message repeats no more of it than a person can read.

    It is the same with every version of click, except for the words of its own checks.
    """
    try:
        yield
    except click.NoSuchOption as error:
        given = error.option_name if len(error.option_name) > 2 else f"-{error.option_name.lstrip('-')}"
        shown = (
            [] if error.ctx is None else [each for each in error.ctx.command.params if not isinstance(each, Renamed)]
        )
        known = {name.strip("-"): name for each in shown for name in each.opts if name.startswith("--")}
        close = closest(given.strip("-"), known)  # without the dashes, which all of them share
        message = f"No such option {given!r}" + (f"; did you mean {known[close]!r}?" if close else "")
        raise click.UsageError(_as_lines(message), error.ctx) from None
    except click.UsageError as error:
        if error.ctx is not None and error.message == error.ctx.get_help():  # nothing was given
            raise
        raise click.UsageError(_as_lines(error.format_message()), error.ctx) from None


def _as_lines(message: str) -> str:
    return messages.wrapped("\n".join(words.sanitize(line, 300) for line in message.split("\n")), beside="Error: ")


class Number(AnyType):
    """A number within limits, both included; not a number is within none."""

    def __init__(self, kind: AnyType, least: float, most: float | None = None) -> None:
        self.kind, self.least, self.most, self.name = kind, least, most, kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = self.kind.convert(value, param, ctx)
        if not number >= self.least:
            self.fail(f"{number} is not greater than or equal to {self.least}", param, ctx)
        if self.most is not None and not number <= self.most:
            self.fail(f"{number} is not less than or equal to {self.most}", param, ctx)
        return number


whole, real = partial(Number, click.INT), partial(Number, click.FLOAT)
COUNT = whole(1)
TAKEN: dict[str, dict[str, Any]] = {  # the annotation of a field → what its option takes, unless it says so itself
    "bool": {"is_flag": True},
    "bool | None": {"is_flag": True, "default": None},
    "int": {"type": COUNT},
    "float": {"type": float},
    "Sequence[str]": {"multiple": True},
}
FILE = click.Path(path_type=Path)  # to be read

# Endings that say what a file is. One that is not listed may mean anything.
ENDINGS = frozenset(
    [
        *(".html", ".htm", ".jsonl", ".json", ".ndjson", ".txt", ".csv", ".tsv", ".parquet", ".xlsx", ".gz", ".zip"),
        *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf", ".md", ".tex", ".py", ".ipynb", ".toml", ".yaml"),
        *(".npy", ".npz", ".pt", ".pth", ".ckpt", ".safetensors", ".pkl"),
    ]
)


class Output(click.Path):
    """A file or folder that is written. A name that says it is something else is surely a mistake.

    Args:
        what: What is written there.
        endings: How the names of such files end; a folder has no ending.
    """

    def __init__(self, what: str, endings: str = "") -> None:
        super().__init__(path_type=Path)
        self.what, self.endings = what, endings.split()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        ending = path.suffix.lower()
        if ending in ENDINGS - {*self.endings} and not path.is_dir():
            usual = " or ".join(self.endings[:2])
            advice = f"give a name that ends in {usual}" if usual else "leave the ending out"
            self.fail(f"{str(value)!r} ends in {ending}, but it will be {self.what}: {advice}", param, ctx)
        return path


FOLDER = Output("a folder")
PAGE = Output("a page", ".html .htm")
LINES = Output("lines of JSON", ".jsonl .json .ndjson .txt .gz")  # .gz is refused with its own reason
FIGURE = Output("a figure", ".pdf .svg .png")
TABLE = Output("a table", ".csv .parquet")
BUNDLE = Output("a zip file", ".zip")
