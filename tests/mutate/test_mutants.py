"""A change that matters is noticed, one that does not survives, and what is changed is code."""

import ast

import pytest

from mutate.mutants import mutants

SOURCE = '''
LIMIT = 300


def nearest(rows: list[int], best: int = 0) -> int:
    """The row next to 7."""
    number: int = 5
    if rows and best >= 0:
        return min(rows, key=lambda row: abs(row - 7) + number)
    return -1
'''


def test_each_mutant_differs_from_the_source_in_one_place_that_is_named():
    found = list(mutants(SOURCE))
    assert len({mutant.source for mutant in found}) == len(found) == 10
    for mutant in found:
        before, _, after = mutant.what.partition(" becomes ")
        assert before != after
        assert after in mutant.source


def test_types_texts_constants_and_defaults_stay_as_they_are():
    for mutant in mutants(SOURCE):
        tree = ast.parse(mutant.source)
        assert ast.unparse(tree.body[0]) == "LIMIT = 300"
        assert ast.get_docstring(tree.body[1]) == "The row next to 7."
        assert ast.unparse(tree.body[1].args) == "rows: list[int], best: int=0"


@pytest.mark.parametrize(
    ("expression", "others"),
    [
        ("a < b", ["a <= b"]),
        ("a in b", ["a not in b"]),
        ("not a", ["a"]),
        ("a | b", ["a & b"]),
        ("a if b else c", ["a if not b else c"]),
        ("np.minimum(a, b)", ["np.maximum(a, b)"]),
        ("f(True)", ["f(False)"]),
        ("zip(a, b, strict=True)", []),
        ("'text'", []),
    ],
)
def test_what_an_expression_becomes(expression, others):
    found = [mutant.source for mutant in mutants(f"def f(a, b, c):\n    return {expression}")]
    assert found == [f"def f(a, b, c):\n    return {other}" for other in others]
