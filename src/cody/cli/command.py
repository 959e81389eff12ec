"""What click leaves to us: help in sections with examples, options as one object, one way to report a wrong call.

A command is a function under `@command`, `@option` and the decorators of `cody.cli.options`:

    @command("view", examples={"cody view why.json": "one page"})
    @option("--open", "open_", is_flag=True, help="Show the page in the browser.")
    def view(open_: bool) -> None: …

A command with many options gets them as one object: `@bundled("options", ViewOptions)`, a dataclass whose fields
say what each option is (`option_fields`, `given_by`).

It works with every click since 8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, field, fields
from functools import partial, wraps
from importlib import import_module
from typing import Any, TypeVar

import click

from cody.cli import terminal
from cody.cli.types import COUNT
from cody.errors import CallError, closest, did_you_mean
from cody.utils import start, words

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]
Texts = Mapping[str, str]
NO_TEXTS: Texts = {}

VERBOSITY = "cody.verbosity"  # where a context has it
TAKEN: dict[str, dict[str, Any]] = {  # the annotation of a field → what its option takes, unless it says so itself
    "bool": {"is_flag": True},
    "bool | None": {"is_flag": True, "default": None},
    "int": {"type": COUNT},
    "float": {"type": float},
    "Sequence[str]": {"multiple": True},
}
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "show_default": True}


class Command(click.Command):
    """A command whose help has its options in sections, and examples: a command → what it does."""

    def __init__(self, *arguments: Any, examples: Texts = NO_TEXTS, **settings: Any) -> None:
        super().__init__(*arguments, **{"context_settings": SETTINGS, **settings})
        self.examples = examples
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
            with terminal.logged(ctx.meta.get(VERBOSITY, 0)), terminal.command(ctx.command_path):
                return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line
            terminal.stop()


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
            terminal.say(f"{self.opts[0]} is deprecated; use {self.now}", before="warning: ")
            opts.setdefault(self.parameter, given)
        return None, args


def option(
    *names: str, section: str = "", was: str = "", one_of: Collection[str] = (), **settings: Any
) -> Decorator[Any]:
    """An option in a section of the help.

    Args:
        names: The option, and its parameter if that is called otherwise.
        section: The section.
        was: Its former name, which still works for one version.
        one_of: What can be chosen.
        settings: As for click.
    """
    if one_of:
        settings["type"] = click.Choice([*one_of])

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

    A field begins with its line of help, and what its value is called there. Its type says what the option takes: a
    bool is a flag, an int a number from 1 on, and options of several texts can be repeated.
    """

    def of_section(about: str, metavar: str | None = None, **settings: Any) -> Any:
        def of_field(each: Field[Any]) -> Decorator[Any]:
            kind = str(each.type)
            implied = TAKEN.get(kind) or TAKEN.get(kind.removesuffix(" | None"), {})
            given = {"section": title, "help": about, "metavar": metavar, **implied, **settings}
            return option(option_name(each.name), **given)

        return field(metadata={"option": of_field})

    return of_section


def option_name(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


def values(options: Any, *names: str) -> dict[str, Any]:
    """The values of those options of a dataclass (`bundled`) that are given: of all its fields, or of some names."""
    every = {name: getattr(options, name) for name in names or [each.name for each in fields(options)]}
    return {name: value for name, value in every.items() if value is not None and value is not False and value != ()}


def given(options: Any, *names: str) -> list[str]:
    """Those of the options of a dataclass (`bundled`) that are given, as they are typed."""
    return [option_name(name) for name in values(options, *names)]


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
    """A group of commands. Those with a summary have modules of their own, which are imported when they are called.

    Args:
        name: Its name.
        summaries: What the help of each command begins with, in the order of the help.
        modules: The modules of commands that are not in one of their own name.
        examples: Examples for the help.
        more: As for click.
    """

    command_class = Command

    def __init__(
        self,
        name: str,
        *,
        summaries: Texts = NO_TEXTS,
        modules: Texts = NO_TEXTS,
        examples: Texts = NO_TEXTS,
        **more: Any,
    ) -> None:
        super().__init__(name, no_args_is_help=True, context_settings=SETTINGS, **more)
        self.summaries, self.modules, self.examples = summaries, modules, examples

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries or self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.summaries:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"cody.cli.{self.modules.get(cmd_name, cmd_name).replace('-', '_')}")
        found: click.Command = getattr(module, cmd_name.replace("-", "_"))
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
    return terminal.wrapped("\n".join(words.sanitize(line, 300) for line in message.split("\n")), beside="Error: ")
