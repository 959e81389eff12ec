"""Compare each figure of the ten sentences in docs/results.md with the files in results/.

    python reproduce/results.py

It prints each figure of the page, what the files say, and where; it ends with an error where they disagree, and where a
sentence has a figure that nothing is known about. Tables of results/laboratory.md are those that other scripts here
have written from the records (between its marks); scores of the benchmark are computed from the leaderboard's entries.
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cody.study.benchmark import ALL, rows_of
from cody.study.leaderboard import answers_of, read_entry

ROOT = Path(__file__).parents[1]
PAGE, LABORATORY = ROOT / "docs" / "results.md", ROOT / "results" / "laboratory.md"
NUMBER = r"[-+−]?\d+(?:\.\d+)?"
INTERVAL = rf"({NUMBER}) \[({NUMBER}), ({NUMBER})\]"
GUIDED = re.compile(r"(scout|greedy|cody|greedy-then-cody)-(temporal|spatio-temporal|event-impact|flow)")


class Claim(NamedTuple):
    """Figures of one sentence: where they stand in it, and what the files say."""

    sentence: int
    words: str  # a regular expression with a group for each figure
    source: str
    figures: Callable[[], list[str]]


@cache
def section(title: str) -> str:
    """What a script has written into the laboratory book, on one line for each row and paragraph."""
    text = LABORATORY.read_text(encoding="utf-8")
    part = text.split(f"<!-- {title} -->")[1].split(f"<!-- /{title} -->")[0]
    return re.sub(r"(?<=[^\n|])\n {0,2}(?=[^\n|\-])", " ", part)


def found(title: str, words: str) -> list[str]:
    """The figures of a section that stand at these words, without a plus."""
    match = re.search(words, section(title))
    if match is None:
        raise ValueError(f"the section {title!r} of {LABORATORY.name} has nothing like {words!r}")
    return [number.lstrip("+") for number in match.groups()]


def row(title: str, name: str) -> list[str]:
    """The cells of a row of a table."""
    line = next(line for line in section(title).splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def percent(share: str) -> str:
    return f"{float(share):.0%}".removesuffix("%")


def without_sign(numbers: list[str]) -> list[str]:
    """A difference the other way round: -a [-c, -b] → a [b, c]."""
    middle, low, high = (number.lstrip("-") for number in numbers)
    return [middle, high, low]


def answered() -> list[str]:
    shares = (row("default", name)[4] for name in ("**default of `cody explain`**", "CoDy, the paper's candidates"))
    return [percent(cell.split("/")[0]) for cell in shares]


def ahead_in(title: str) -> list[str]:
    """By how much Scout is ahead of CoDy and of GreeDy, and in how many settings."""
    numbers: list[str] = []
    settings = set()
    for other in ("cody", "greedy"):
        words = rf"scout-spatio-temporal over {other}-spatio-temporal: AUFSC\+ {INTERVAL}, "
        *some, ahead, of = found(title, words + r"ahead in (\d+), behind in \d+ of (\d+)")
        numbers += some
        settings.add((ahead, of))
    ((ahead, of),) = settings  # "each"
    return [*numbers, ahead, of]


def order() -> list[str]:
    exact = found("finding", rf"is {INTERVAL} with our models and exact answers")
    published = found("finding", rf"With both as published it is {INTERVAL}")
    return without_sign(exact) + published


def seeds() -> list[str]:
    rows = [line.strip("| ").split("|") for line in section("seeds").splitlines() if re.match(r"\| TG(N|AT) \|", line)]
    return [max(cells[-1].strip() for cells in rows)]


def similarity() -> list[str]:
    rows = [line for line in section("seeds").splitlines() if line.startswith("| seed of the training")]
    values = [float(value) for line in rows for value in re.findall(rf"({NUMBER}) \[", line)]
    return [f"{least:.2f}" for least in (min(values), max(values))]


def campus() -> list[str]:
    """Of guided searches, for answers: how often the cause is named, and how often nothing else, at least."""
    cells = [line.strip("| ").split("|") for line in section("campus").splitlines() if line.startswith("| ")]
    answers = [line[place] for line in cells if GUIDED.fullmatch(line[0].strip()) for place in (1, 3)]
    named, alone = zip(*(cell.split("/")[:2] for cell in answers), strict=True)
    tenths = int(10 * min(map(float, alone)))
    return [percent(min(named)), "100", {9: "nine"}.get(tenths, str(tenths))]


@cache
def exact() -> dict[str, list[str]]:
    """Of each explainer in our entry: links, and the share of exact answers with its interval."""
    entry = read_entry(ROOT / "results" / "leaderboard" / "cody.json")
    scores = {row.explainer: (row.links, row.scores["exact"]) for row in rows_of(answers_of(entry)) if row.log == ALL}
    return {
        name: [str(links), *(f"{number:.2f}" for number in (mean.value, mean.low, mean.high))]
        for name, (links, mean) in scores.items()
    }


def exactly() -> list[str]:
    always = {tuple(exact()[name]) for name in ("scout-spatio-temporal", "cody-spatio-temporal")}
    links = [numbers[0] for numbers in always if numbers[1:] == ("1.00",) * 3]
    others = [exact()[name][1:] for name in ("greedy-spatio-temporal", "pbone-prefix", "random-prefix")]
    return [*(links if len(always) == 1 else ["not all"]), *(number for numbers in others for number in numbers)]


BOOK = "results/laboratory.md"
LEADS = rf"CoDy by (?:an AUFSC\+ of )?{INTERVAL} and of GreeDy by {INTERVAL}, (?:again )?in (\d+) of (\d+)"
CLAIMS = [
    Claim(1, r"answers (\d+) % .* answers (\d+) %", f"{BOOK}, default", answered),
    Claim(2, LEADS, f"{BOOK}, paper", lambda: ahead_in("paper")),
    Claim(3, LEADS, f"{BOOK}, test", lambda: ahead_in("test")),
    Claim(4, rf"behind, by {INTERVAL}, .* ahead, by {INTERVAL}", f"{BOOK}, finding", order),
    Claim(
        5,
        rf"by {INTERVAL} over event-impact",
        f"{BOOK}, paper",
        lambda: found("paper", rf"best policy on correct predictions \| holds \|.* over event-impact {INTERVAL}"),
    ),
    Claim(
        6,
        r"is (\d+) % below CoDy .* (none) of",
        f"{BOOK}, paper",
        lambda: [
            *found("paper", r"T-GNNExplainer (\d+) % below as the paper counts"),
            {"0": "none"}.get(*found("paper", r"a factual method is best in (\d+) of 12 settings"), "some"),
        ],
    ),
    Claim(7, rf"at most ({NUMBER})", f"{BOOK}, seeds", seeds),
    Claim(8, rf"similarity of ({NUMBER}) to ({NUMBER})", f"{BOOK}, seeds", similarity),
    Claim(9, r"at least (\d+) of (\d+) cases, and no other event in (\w+) of ten", f"{BOOK}, campus", campus),
    Claim(
        10,
        rf"all of (\d+) links, GreeDy on {INTERVAL}, .* effect on {INTERVAL}, a random order on {INTERVAL}",
        "results/leaderboard/cody.json",
        exactly,
    ),
]


def sentences(page: str) -> dict[int, str]:
    """The ten sentences, without the links to their sources. A line of the page ends nowhere in particular."""
    parts = re.split(r"^(\d+)\. ", page, flags=re.MULTILINE)[1:]
    texts = zip(parts[::2], parts[1::2], strict=True)
    return {int(number): re.sub(r"\s*\(\[.*\)", "", " ".join(text.split())) for number, text in texts}


def compared(page: str) -> Iterator[tuple[Claim, list[str], list[str]]]:
    """Each claim, its figures on the page, and those of the files. Figures that belong to no claim come last."""
    texts = sentences(page)
    for claim in CLAIMS:
        match = re.search(claim.words, texts.get(claim.sentence, ""))
        yield claim, [] if match is None else list(match.groups()), claim.figures()
        if match is not None:
            left = texts[claim.sentence]
            for first, last in reversed([match.span(place + 1) for place in range(len(match.groups()))]):
                left = left[:first] + left[last:]
            unknown = re.findall(r"\d+(?:\.\d+)?", left)
            yield Claim(claim.sentence, "", "no file: nothing is known about them", lambda: []), unknown, []


def main() -> None:
    wrong = 0
    for claim, here, known in compared(PAGE.read_text(encoding="utf-8")):
        if here or known:
            wrong += here != known
            verdict = "as in" if here == known else f"but {' '.join(known) or 'nothing'} in"
            print(f"{claim.sentence:>2}. {' '.join(here) or 'nothing'} {verdict} {claim.source}")
    if wrong:
        sys.exit(f"{wrong} of them: docs/results.md and the files disagree")


if __name__ == "__main__":
    main()
