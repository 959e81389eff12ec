"""A model by name: a folder or a shipped one, or `module:function`, a function of the user's that makes one."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from cody.data import datasets
from cody.errors import CallError, CodyError, ModelError, did_you_mean, first_line
from cody.graph import TemporalGraph
from cody.models.contract import Model, check_is_model, graph_of


def is_factory(name: str) -> bool:
    """Whether a name means a function that makes a model.

    >>> is_factory("my_models:tgn"), is_factory("tgn-collegemsg"), is_factory("C:/models/tgn")
    (True, False, False)
    """
    return re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", name) is not None


class NamedModel:
    """The model that a name means, with the graph that it is for; each is loaded when it is needed.

    A function is called with the graph if it has an argument. It returns a model, or a model and its graph; if the
    model knows its graph (`model.graph`), that is enough.
    """

    def __init__(
        self, name: str, load_graph: Callable[[], TemporalGraph], folder: Path | None = None, *, data: str = ""
    ) -> None:
        self.name, self._load_graph, self._data = name, load_graph, data
        self._folder = Path.cwd() if folder is None else folder  # where modules are looked for first

    @cached_property
    def graph(self) -> TemporalGraph:
        if not is_factory(self.name):
            return self._load_graph()
        return self._made[1]

    @cached_property
    def data(self) -> str:
        """What the data are called: as they were given, unless the graph came with the model."""
        if not self.brings_data:
            return self._data
        return next((each.name for each in datasets() if each.content == self.graph.identity), self.name)

    @property
    def brings_data(self) -> bool:
        """Whether the graph came with the model."""
        return is_factory(self.name) and self._made[2]

    @property
    def unused_data(self) -> str:
        """The data that were given in vain because the graph came with the model; empty if they are used."""
        return self._data if self.brings_data and self.data != self._data else ""

    def open(self, **options: Any) -> Model:
        """The model; the options, those of `cody.load_model`, are for ours."""
        if is_factory(self.name):
            return self._made[0]
        from cody.engine.saved import load_model

        return load_model(self.name, self.graph, **options)

    @cached_property
    def _made(self) -> tuple[Model, TemporalGraph, bool]:
        function = find_factory(self.name, self._folder)
        with reported_as_of(self.name):
            wanted = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
            wanted = [each for each in wanted if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        if len(wanted) > 1:
            raise CallError(f"{self.name} must take the graph, or nothing; it takes {len(wanted)} arguments")
        graph = self._load_graph() if wanted else None
        with reported_as_of(self.name):
            made = function(graph) if wanted else function()
        model, own = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if model is None:
            raise CallError(f"{self.name} returned nothing; it must return a model, or a model and its graph")
        check_is_model(model)
        if own is not None and not isinstance(own, TemporalGraph):
            raise CallError(f"{self.name} must return a model, or a model and its graph; the second is {own!r:.60}")
        if own is None and graph is None:
            own = graph_of(model)
        brought = own is not None and (graph is None or own.identity != graph.identity)
        return model, own or graph or self._load_graph(), brought


def load_factory(name: str, folder: Path, graph: TemporalGraph) -> Model:
    """The model that a function makes, in another process."""
    return NamedModel(name, lambda: graph, folder).open()


def find_factory(name: str, folder: Path, option: str = "--model") -> Callable[..., Any]:
    """The function that `module:function` names. Modules are looked for in the folder too.

    Args:
        name: The name.
        folder: Where modules are looked for first.
        option: What the user gave it to, for the errors.
    """
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise ModelError(f"{module_name} cannot be imported: {first_line(error)}") from error
        meant = f"{module_name.removesuffix('.py')}:{function_name}"
        similar = f"; did you mean {meant!r}?" if meant != name and (folder / module_name).is_file() else ""
        raise CallError(
            f"there is no module {module_name!r}, which {option} {name} names; it is looked for in {str(folder)!r} and "
            f"among the installed packages{similar}"
        ) from None
    except (Exception, SystemExit) as error:  # a script that ends the program must not end this one
        raise ModelError(f"{module_name} cannot be imported: {type(error).__name__}: {first_line(error)}") from error
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        known = [each for each, value in vars(module).items() if inspect.isfunction(value)]
        raise CallError(f"{module_name} has no function {function_name!r}{did_you_mean(function_name, known)}")
    return function


@contextmanager
def reported_as_of(name: str) -> Iterator[None]:
    """Whatever a user's function raises becomes one line that says where; errors of ours stay what they are."""
    try:
        yield
    except CodyError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        raise ModelError(f"{name} failed ({where}): {type(error).__name__}: {first_line(error)}") from error
