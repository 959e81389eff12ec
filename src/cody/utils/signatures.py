"""Signatures that `help` shows as a person would write them: `search=scout`, without the address of a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import Any, ForwardRef, TypeVar

from cody.errors import CallError

Thing = TypeVar("Thing", bound=Callable[..., Any])


class Named:
    """A function, or a type that is known by name only, which shows itself as its name."""

    def __init__(self, name: str, function: Callable[..., Any] | None = None) -> None:
        self.name, self.function = name, function
        if function is not None:
            update_wrapper(self, function)

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        assert self.function is not None, f"{self.name} is a type"
        return self.function(*arguments, **options)


def readable_help(thing: Thing) -> Thing:
    """Give a function or a class a signature without quotes and addresses. What it does stays the same.

    >>> def near(): ...
    >>> def pick(events: list[int], how=near): ...
    >>> str(inspect.signature(pick)).partition(" at ")[0], str(inspect.signature(readable_help(pick)))
    ("(events: 'list[int]', how=<function near", '(events: list[int], how=near)')
    """
    makers = [vars(thing).get(name) for name in ("__init__", "__new__")] if isinstance(thing, type) else []
    named: list[Any] = [thing, *(maker for maker in makers if isinstance(maker, FunctionType))]
    for each in named:
        each.__signature__ = _readable(inspect.signature(each))
    return thing


def check_callable(function: Callable[..., Any], call: str) -> None:
    """Reject a function of the user that cannot be called in a certain way.

    Args:
        function: The function.
        call: How it is called, for example "score(query, past)".

    >>> check_callable(lambda query: 0.0, "score(query, past)")
    Traceback (most recent call last):
        ...
    cody.errors.CallError: a function is called as score(query, past), but yours is <lambda>(query)
    """
    if not callable(function):
        raise CallError(f"a function is called as {call}; {function!r:.60} is none")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C, nothing is known
        return
    names = [name for name in call.partition("(")[2].rstrip(")").split(", ") if name]
    try:
        signature.bind(*names)
    except TypeError:
        shown = getattr(function, "__name__", type(function).__name__)
        raise CallError(f"a function is called as {call}, but yours is {shown}{signature}") from None


def _readable(signature: inspect.Signature) -> inspect.Signature:
    parameters = [
        each.replace(default=_named(each.default), annotation=_unquoted(each.annotation))
        for each in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters, return_annotation=_unquoted(signature.return_annotation))


def _named(default: Any) -> Any:
    if isinstance(default, tuple) and any(isinstance(each, FunctionType) for each in default):
        return tuple(map(_named, default))
    return Named(default.__name__, default) if isinstance(default, FunctionType) else default


def _unquoted(annotation: Any) -> Any:
    if isinstance(annotation, ForwardRef):
        return Named(annotation.__forward_arg__)
    return Named(annotation) if isinstance(annotation, str) else annotation
