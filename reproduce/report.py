"""Tables, figures and the claims of results/laboratory.md, from the records under results/reproduction.

python reproduce/report.py
"""

import argparse
from collections import defaultdict
from itertools import chain
from pathlib import Path
from shutil import move
from tempfile import TemporaryDirectory

from claims import Settings, sensitivity, with_interval
from claims import table as claims_table
from order import causes
from page import replace_section
from reasons import reasons

from cody.errors import DataError
from cody.paper import typeset
from cody.paper.tables import tables
from cody.study.arrange import in_order
from cody.study.explainers import EXPLAINERS, find, known
from cody.study.metrics import aufsc_plus, fidelity_plus, mean_evaluations
from cody.study.record_file import read_records
from cody.utils.files import write_atomically

SHOWN_SIMILARITIES = ("jaccard-tgn-wikipedia-correct", "jaccard-tgat-uci-messages-correct")  # the others fill a folder


def read(folder, pattern):
    """Records of all files of that name, by (model, data, kind) and explainer."""
    records = [record for file in sorted(folder.glob(pattern)) for record in read_records(file)]
    settings = defaultdict(lambda: defaultdict(list))
    for record in records:
        model = Path(record.model).name.split("-")[0]
        settings[model, record.data, record.kind][name_of(record)].append(record)
    return records, settings


def name_of(record):
    """The catalogue's name of an explainer, or the record's own if it is not in there."""
    entry = known(record.search, record.policy)
    return record.explainer if entry is None else entry.name


def complete(settings):
    """Only explainers that explained every link of a setting. They must have explained the same links."""
    whole = {
        setting: {name: some for name, some in found.items() if len(some) == max(map(len, found.values()))}
        for setting, found in settings.items()
    }
    for setting, found in whole.items():
        names = {}
        for name, some in found.items():
            names.setdefault(frozenset((record.model_identity, record.event) for record in some), name)
        if len(names) > 1:
            one, other, *_ = names.values()
            raise DataError(
                f"{one} and {other} explained different links, or another model, in the setting {', '.join(setting)}: "
                "remove the records of one of them, and run reproduce/reproduce.sh again"
            )
    return whole


def average_table(settings):
    """Means over the settings, for correct and incorrect predictions separately."""
    names = in_order(chain.from_iterable(settings.values()), EXPLAINERS)
    yield "| explainer | settings | AUFSC+ correct | incorrect | fidelity+ correct | incorrect | sets asked |"
    yield "|---|---|---|---|---|---|---|"
    every = Settings(settings)
    for name in names:
        cells = [
            every.only(kind=kind).mean(name, metric)
            for metric in (aufsc_plus, fidelity_plus)
            for kind in ("correct", "incorrect")
        ]
        asked = every.mean(name, mean_evaluations)
        count = sum(name in found for found in settings.values())
        yield f"| {name} | {count} | " + " | ".join(f"{cell:.3f}" for cell in cells) + f" | {asked:,.0f} |"


def varied(folder, ending, what):
    """Records of a sensitivity run, by the value of the varied option."""
    return {
        float(file.name.removesuffix(ending).rpartition("-")[2]): read_records(file)
        for file in sorted(folder.glob(f"sensitivity-{what}-*{ending}"))
    }


def unvaried(folder, ending):
    """Records with the paper's options, about the links of the sensitivity runs; none if that was not run."""
    return [record for file in folder.glob(f"sensitivity-base{ending}") for record in read_records(file)]


def by_explainer(records):
    found = defaultdict(list)
    for record in records:
        found[name_of(record)].append(record)
    return found


def write(folder, name, records, *, paper):
    made = tables(records, paper=paper)
    write_atomically(folder / f"{name}.md", typeset.as_markdown(made))
    write_atomically(folder / f"{name}.tex", typeset.as_latex(made))
    write_atomically(folder / f"{name}.csv", typeset.as_csv(made))


def section(folder, ending, title, records, settings):
    """The generated block of results/laboratory.md about one protocol."""
    found = complete(settings)
    yield from average_table(found)
    links = {(setting, record.event) for setting, all_ in settings.items() for one in all_.values() for record in one}
    yield ""
    yield f"{len(records):,} records about {len(links):,} links in {len(settings)} settings (model, data set, kind)."
    lines = [*compared(Settings(found)), *versions(records)]
    yield from ["", *(f"- {line}" for line in lines)] if lines else []
    if title == "paper":
        longer = by_explainer(read(folder, f"iterations-1200{ending}")[0])
        runs = (varied(folder, ending, what) for what in ("alpha", "candidates"))
        alphas, sizes = sensitivity(Settings(found), *runs, unvaried(folder, ending))
        known = causes() | reasons(Settings(found), alphas, sizes, longer)
        yield "\n### Claim by claim\n"
        yield from claims_table(Settings(found), alphas, sizes, longer, known)


def versions(records):
    """Which explainers were run with which version, if there are several: their seconds cannot be compared."""
    names = defaultdict(set)
    for record in records:
        names[record.version].add(name_of(record))
    _, *later = sorted(names)
    for version in later:
        which = ", ".join(in_order(names[version], EXPLAINERS))
        yield f"{which}: records of version {version}, whose seconds must not be compared with those of the others"


def compared(settings):
    """Scout, the default search, and the default before it, against the others."""
    for search, others in (("scout", ("greedy-then-cody", "greedy", "cody")), ("greedy-then-cody", ("greedy", "cody"))):
        for policy in ("spatio-temporal", "event-impact"):
            name = find(search, policy).name
            for other in (find(other, policy).name for other in others):
                if any({name, other} <= found.keys() for found in settings.records_of.values()):
                    value, low, high, ahead, count = settings.gap(name, other)
                    behind = settings.gap(other, name)[3]
                    yield (
                        f"{name} over {other}: AUFSC+ {with_interval(value, (low, high))}, ahead in {ahead}, behind in "
                        f"{behind} of {count} settings"
                    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, default=Path("results/reproduction"))
    arguments.add_argument("--ending", default=".jsonl.gz", help="of the files of records")
    arguments.add_argument("--page", type=Path, default=Path("results/laboratory.md"), help="its sections are replaced")
    options = arguments.parse_args()
    for title, pattern in (("paper", "tg*"), ("test", "test-*")):
        records, settings = read(options.folder, pattern + options.ending)
        if not records:
            continue
        replace_section(
            options.page, title, "\n".join(section(options.folder, options.ending, title, records, settings))
        )
        write(options.folder, f"tables-{title}", records, paper=title == "paper")
        if title == "paper":
            draw(options.folder, options.ending, records)


def draw(folder, ending, records):
    from cody.paper.figures import save_figures

    figures = folder / "figures"
    written = save_figures(records, figures)
    one = [record for record in records if Path(record.model).name == "tgat-uci-messages"]
    same = unvaried(folder, ending) or [
        record for record in one if record.kind == "correct" and name_of(record) == find("cody").name
    ]
    other = [
        record for what in ("alpha", "candidates") for some in varied(folder, ending, what).values() for record in some
    ]
    with TemporaryDirectory() as elsewhere:
        for path in save_figures([*same, *other], Path(elsewhere)):
            if path.stem.startswith("sensitivity-"):
                move(path, figures / path.name)
        longer, _ = read(folder, f"iterations-1200{ending}")
        for path in save_figures(longer, Path(elsewhere)) if longer else ():
            if path.stem.startswith("fidelity-calls"):
                move(path, figures / f"iterations-1200{path.suffix}")
    for path in written:
        if path.stem.startswith("jaccard-") and path.stem not in SHOWN_SIMILARITIES:
            path.unlink()


if __name__ == "__main__":
    main()
