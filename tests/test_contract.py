"""What the package promises about itself: its public names, and which module may know which."""

import ast
import importlib
import inspect
import pydoc
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cody
from cody.engine.library import SOURCES
from slow_tests import SLOW

SOURCE = Path(cody.__file__).parent

# The rooms of the package, in the order of the data path. Each may import from the lines above it, and from itself.
ORDER = [
    {"cody.errors", "cody._version"},
    {"cody.utils"},
    {"cody.graph"},
    {"cody.models", "cody.data"},
    {"cody.engine", "cody.search"},
    {"cody.explaining", "cody.train"},
    {"cody.adapters", "cody.baselines"},
    {"cody.study"},
    {"cody.paper"},  # only commands import it
    {"cody.web"},
    {"cody"},
    {"cody.cli"},
    {"cody.__main__"},
]

# A result can show itself as a page, so its method, and nothing else of its room, imports what draws it.
SHOWS_ITSELF = {
    ("cody.explaining.even_if", "cody.web.even_if_page"),
    ("cody.explaining.explanation", "cody.web"),
    ("cody.study.audit_report", "cody.web.audit_page"),
    ("cody.study.causes", "cody.web.causes_page"),
    ("cody.study.impact", "cody.web.impact_page"),
    ("cody.study.report", "cody.web.survey_drawing"),
    ("cody.study.report", "cody.web.survey_page"),
}


def part(module):
    """cody.train.tgn → cody.train"""
    return ".".join(module.split(".")[:2])


def module_name(file):
    relative = file.relative_to(SOURCE.parent).with_suffix("")
    return ".".join(relative.parts).removesuffix(".__init__")


def imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} uses a relative import"
            yield from ([f"cody.{alias.name}" for alias in node.names] if node.module == "cody" else [node.module])


def test_imports_go_one_way():
    level = {module: number for number, line in enumerate(ORDER) for module in line}
    for file in SOURCE.rglob("*.py"):
        here = part(module_name(file))
        assert here in level, f"{here} has no place in the order of imports"
        for module in imported(file):
            there = part(module) if part(module) in level else "cody"
            if (module_name(file), module) in SHOWS_ITSELF:
                continue
            if module.split(".")[0] == "cody" and there != here:
                assert level[there] < level[here], f"{file.name} imports {module}"


def test_searching_by_estimates_is_one_file():
    """Whoever searches or explains need not know that some models are searched by estimates."""
    rooms = [SOURCE / room for room in ("search", "explaining")]
    knowing = [file.name for room in rooms for file in room.rglob("*.py") if "open_estimates" in file.read_text()]
    assert knowing == ["estimates.py"]


def test_the_sentences_of_an_answer_are_in_one_file():
    """An explanation has values; whoever changes a sentence finds it in wording.py. Errors are not answers."""
    tree = ast.parse((SOURCE / "explaining" / "explanation.py").read_text())
    skipped = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    skipped |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert [text.value for text in texts if len(text.value.split()) > 4 and id(text) not in skipped] == []


def test_a_class_name_means_one_thing():
    homes: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.strip("_"), []).append(module_name(file))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def documented():
    """Every public function and class of the modules that the API reference lists."""
    listed = (Path(__file__).parents[1] / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"`(cody\.[\w.]+)`", listed))):
        module = importlib.import_module(name)
        for each, value in vars(module).items():
            if callable(value) and getattr(value, "__module__", "") == name and not each.startswith("_"):
                yield f"{name}.{each}", value


def functions_of(name, value):
    """A documented function, or the public methods that a documented class defines itself."""
    if inspect.isclass(value):
        for each, member in vars(value).items():
            function = inspect.unwrap(getattr(member, "__func__", member))
            if not each.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{each}", function
    elif inspect.isfunction(inspect.unwrap(value)):
        yield name, inspect.unwrap(value)


def undescribed(function):
    """Parameters that the `Args:` of a docstring leave out, or name although there are none; two need no list."""
    names = {name for name in inspect.signature(function).parameters if name not in ("self", "cls")}
    _, _, args = (inspect.getdoc(function) or "").partition("Args:\n")
    described = set(re.findall(r"^    \*{0,2}(\w+):", args.partition("\n\n")[0], re.MULTILINE))
    return sorted(names ^ described) if len(names) > 2 or described else []


def test_every_parameter_of_a_documented_function_is_described():
    missing = {
        name: undescribed(function)
        for place, value in documented()
        for name, function in functions_of(place, value)
        if undescribed(function)
    }
    assert missing == {}


def test_help_of_everything_that_is_documented_shows_names_instead_of_addresses():
    found = dict(documented())
    assert len(found) > 200
    assert [name for name, value in found.items() if " at 0x" in pydoc.render_doc(value)] == []


def test_help_of_what_a_program_imports_first_is_as_one_would_write_it():
    functions = [getattr(cody, name) for name in cody.__all__ if inspect.isfunction(getattr(cody, name))]
    tuples = [cody.Add, cody.Alter, cody.Move, cody.Query]
    for each in [*functions, *tuples]:
        assert not re.search(r"ForwardRef|: '|-> '", str(inspect.signature(each)))
    signature = str(inspect.signature(cody.explain))
    for expected in ("model: Model", "search: Search = scout", "= (removals,)", "-> Explanation"):
        assert expected in signature


def test_the_meaning_of_a_logit_is_defined_once():
    ours = {"flips", "logit_of", "probability", "scores", "shift"}
    tree = ast.parse((SOURCE / "models" / "margins.py").read_text())
    assert ours <= {getattr(node, "name", "") for node in tree.body}
    for file in set(SOURCE.rglob("*.py")) - {SOURCE / "models" / "margins.py"}:
        defined = {getattr(node, "name", "") for node in ast.parse(file.read_text()).body}
        assert not ours & {name.strip("_") for name in defined}, f"{file} defines it again"
        if file != SOURCE / "baselines" / "lessons.py":  # there it is computed on tensors
            assert not re.search(r"> 0\) [!=]= \(.* > 0\)", file.read_text()), f"{file} compares signs by itself"


def test_importing_cody_is_light():
    heavy = "{'torch', 'pandas', 'pyarrow', 'networkx', 'click', 'rich', 'numpy'}"
    code = f"import sys, cody; print(sorted({heavy} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_all_equals_the_public_names():
    assert all(hasattr(cody, name) for name in cody.__all__)  # each is imported now, where it was not yet
    own_modules = {file.stem for file in SOURCE.iterdir()}
    public = {name for name in vars(cody) if not name.startswith("_") and name not in own_modules}
    public -= {"TYPE_CHECKING"}
    assert set(cody.__all__) == set(dir(cody)) == public | {"__version__"}
    assert len(cody.__all__) <= 30  # six of them are the decisions


@pytest.mark.parametrize("package", ["cody", "cody.data"])
def test_public_names_stay_the_same_whichever_module_is_imported_first(package):
    code = f"""
import importlib, pkgutil
package = importlib.import_module({package!r})
for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
names = [name for name in package.__all__ if not name.startswith("_")]
print([name for name in names if isinstance(getattr(package, name), type(importlib))])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_list_of_slow_tests_names_tests():
    for name in SLOW:
        file, _, test = name.partition("::")
        assert f"def {test}" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8"), name


def test_wheels_hold_every_file_of_the_package_and_their_check_expects_it(monkeypatch):
    root = Path(__file__).parent.parent
    package = root / "src" / "cody"
    files = {file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    files = {file for file in files if file.suffix not in (".py", ".so")}
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["cody"]
    assert files == {file for pattern in patterns for file in package.glob(pattern)} & files
    monkeypatch.setattr(sys, "argv", ["contents.py"])  # it checks the wheels in its arguments
    allowed = runpy.run_path(str(root / ".ci" / "contents.py"))["ALLOWED"]
    assert [file for file in sorted(files) if not allowed.fullmatch(file.relative_to(package.parent).as_posix())] == []


def test_every_c_source_and_header_is_built_from_and_compared_with_the_library():
    root = Path(__file__).parent.parent
    names = {file.name for file in (root / "src" / "cody" / "engine").glob("*.[ch]")}
    assert names == set(SOURCES)
    assert all(f'"{name}"' in (root / "setup.py").read_text() for name in names)


def test_the_shell_scripts_import_names_that_there_are():
    root = Path(__file__).parent.parent
    scripts = [root / "Makefile", *(file for file in (root / ".ci").iterdir() if file.suffix != ".py")]
    lines = [line for script in scripts for line in re.findall(r"from (cody[\w.]*) import (\w+)", script.read_text())]
    assert lines
    assert [line for line in lines if not hasattr(importlib.import_module(line[0]), line[1])] == []
