"""Products of a few vectors with a matrix: the compiled form against numpy's.

    python bench/products.py

172 × 516 numbers, as the gates of a memory of the paper's sizes. Both forms in turn, processor time, the median.
"""

import time

import numpy as np

from cody.engine.library import library
from cody.engine.vectors import Matrix

COUNTS = (1, 4, 8, 16, 32, 64, 256)
ROUNDS, OPERATIONS = 5, 50_000_000  # of each form and count


def seconds(multiply, times):
    start = time.process_time()
    for _ in range(times):
        multiply()
    return (time.process_time() - start) / times


def main():
    if library() is None:
        raise SystemExit("the compiled library is not built")
    rng = np.random.default_rng(0)
    array = rng.normal(size=(172, 516))
    matrix = Matrix(array)
    print("| vectors | numpy, billion operations a second | compiled | |", "|---|---|---|---|", sep="\n")
    for count in COUNTS:
        vectors, out = rng.normal(size=(count, 172)), np.empty((count, 516))
        operations = 2 * count * array.size
        forms = (lambda: np.matmul(vectors, array, out=out), lambda: matrix.times(vectors, out=out))  # noqa: B023
        rounds = [[seconds(form, OPERATIONS // operations) for form in forms] for _ in range(ROUNDS)]
        pure, compiled = operations / np.median(rounds, axis=0) / 1e9
        print(f"| {count} | {pure:.0f} | {compiled:.0f} | {compiled / pure:.1f}× |")


if __name__ == "__main__":
    main()
