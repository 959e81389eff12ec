"""Names and modules that are imported when they are first used, so that nobody waits for unused ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package whose public names come from its modules on demand.

    Importing the module `cody.explain` would make `cody.explain` that module, and hide the function of the same name.
    Here the public name wins, whatever is imported first.
    """

    _homes: Mapping[str, str]  # public name → the module that defines it

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in self._homes):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            return self._submodule(name)
        value = getattr(import_module(self._homes[name]), name)
        setattr(self, name, value)
        return value

    def _submodule(self, name: str) -> ModuleType:
        """A module of the package, which need not be imported by its own name first."""
        path = f"{self.__name__}.{name}"
        if name.startswith("_") or find_spec(path) is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return import_module(path)

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)


class _LazyModule:
    """A module that is imported when something of it is first used."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._path), name)
        setattr(self, name, value)
        return value


def on_demand(path: str) -> Any:
    """A module of another package that takes time to import; it is imported when something of it is first used."""
    return _LazyModule(path)


def import_on_demand(package: str, names: Mapping[str, str]) -> None:
    """Let the public names of a package (with blanks between) come from these modules, each when it is first used."""
    module = sys.modules[package]
    module.__dict__["_homes"] = {name: home for home, listed in names.items() for name in listed.split()}
    module.__class__ = LazyPackage
