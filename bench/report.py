"""Tables, figures and the claims of docs/results.md, from the records under results/reproduction.

python bench/report.py
"""

import argparse
import re
from collections import defaultdict
from itertools import chain
from pathlib import Path

import numpy as np

from cody.evaluate import typeset
from cody.evaluate.metrics import aufsc_plus, fidelity_plus, mean_evaluations
from cody.evaluate.records import read_records
from cody.evaluate.tables import tables

POLICIES = ("random", "temporal", "spatio-temporal", "event-impact")
FACTUAL = ("random", "pbone", "pgexplainer", "tgnnexplainer")


def read(folder, pattern):
    """Records of all files of that name, by (model, data, kind) and explainer."""
    records = [record for file in sorted(folder.glob(pattern)) for record in read_records(file)]
    settings = defaultdict(lambda: defaultdict(list))
    for record in records:
        model = Path(record.model).name.split("-")[0]
        settings[model, record.data, record.kind][record.explainer].append(record)
    return records, settings


def mean(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else float("nan")


def per_setting(settings, explainer, metric, kind=None):
    """The metric of one explainer in each setting that it explained in full."""
    for (_, _, of_kind), explainers in settings.items():
        whole = max(map(len, explainers.values()))
        if (kind is None or of_kind == kind) and len(explainers.get(explainer, [])) == whole:
            yield metric(explainers[explainer])


def average_table(settings):
    """Means over the settings, correct and incorrect apart."""
    names = list(dict.fromkeys(chain.from_iterable(settings.values())))
    yield "| explainer | AUFSC+ correct | AUFSC+ incorrect | fidelity+ correct | fidelity+ incorrect | evaluations |"
    yield "|---|---|---|---|---|---|"
    for name in sorted(names):
        cells = [mean(per_setting(settings, name, aufsc_plus, kind)) for kind in ("correct", "incorrect")]
        cells += [mean(per_setting(settings, name, fidelity_plus, kind)) for kind in ("correct", "incorrect")]
        asked = mean(per_setting(settings, name, mean_evaluations))
        yield f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + f" | {asked:.0f} |"


def claims(settings):
    """What the paper claims, and what is found here: one line each."""

    def over(explainer, kind=None):
        return mean(per_setting(settings, explainer, aufsc_plus, kind))

    def best(kind, family):
        return max(POLICIES, key=lambda policy: over(f"{family}-{policy}", kind))

    cody, greedy = (mean([over(f"{family}-{policy}") for policy in POLICIES]) for family in ("cody", "greedy"))
    factual = {name: over(name) for name in FACTUAL}
    yield (
        f"CoDy above GreeDy above the factual methods in AUFSC+, means over all policies: CoDy {cody:.3f}, "
        f"GreeDy {greedy:.3f}; " + ", ".join(f"{name} {value:.3f}" for name, value in factual.items())
    )
    pair = over("cody-spatio-temporal"), over("greedy-spatio-temporal")
    yield (
        f"CoDy over GreeDy, both spatio-temporal (paper: +16 %): {pair[0]:.3f} against {pair[1]:.3f}, "
        f"{100 * (pair[0] / pair[1] - 1):+.0f} %"
    )
    for kind, expected in (("correct", "spatio-temporal"), ("incorrect", "event-impact")):
        values = ", ".join(f"{policy} {over(f'cody-{policy}', kind):.3f}" for policy in POLICIES)
        yield f"CoDy, {kind} (paper: {expected} is best): {best(kind, 'cody')} is best ({values})"
    worst = [min(POLICIES, key=lambda policy: over(f"{family}-{policy}")) for family in ("cody", "greedy")]
    yield f"random is the worst policy (paper: yes): CoDy's worst is {worst[0]}, GreeDy's is {worst[1]}"
    easier = 0
    pairs = 0
    for (model, data, kind), explainers in settings.items():
        for name, records in explainers.items():
            other = settings.get((model, data, "incorrect"), {}).get(name)
            if kind == "correct" and other and name not in FACTUAL:
                pairs += 1
                easier += aufsc_plus(other) > aufsc_plus(records)
    yield f"incorrect predictions are easier to explain: in {easier} of {pairs} pairs of a search and a setting"
    calls = {name: mean(per_setting(settings, name, mean_evaluations)) for name in ("cody-spatio-temporal",)}
    calls |= {name: mean(per_setting(settings, name, mean_evaluations)) for name in ("greedy-spatio-temporal",)}
    yield "evaluations: " + ", ".join(f"{name} {value:.0f}" for name, value in calls.items())


def sensitivity(folder, ending, settings):
    """More iterations, other alpha, other numbers of candidates."""
    base = settings.get(("tgat", "uci-messages", "correct"), {}).get("cody-spatio-temporal")
    if base:
        yield f"alpha 2/3, 64 candidates: AUFSC+ {aufsc_plus(base):.3f}, fidelity+ {fidelity_plus(base):.3f}"
    for file in sorted(folder.glob(f"sensitivity-*{ending}")):
        records = read_records(file)
        name = re.sub(r"sensitivity-|\.jsonl.*", "", file.name).replace("-", " ")
        yield f"{name}: AUFSC+ {aufsc_plus(records):.3f}, fidelity+ {fidelity_plus(records):.3f} ({len(records)} links)"
    longer, _ = read(folder, f"iterations-1200{ending}")
    for name in dict.fromkeys(record.explainer for record in longer):
        of_it = [record for record in longer if record.explainer == name]
        within = [mean([record.first is not None and record.first <= n for record in of_it]) for n in (300, 600, 1200)]
        yield f"{name}, TGN, wikipedia, correct: found within 300 / 600 / 1,200 sets: " + " / ".join(
            f"{share:.2f}" for share in within
        )


def write(folder, name, records, *, paper):
    made = tables(records, paper=paper)
    (folder / f"{name}.md").write_text(typeset.as_markdown(made), encoding="utf-8")
    (folder / f"{name}.tex").write_text(typeset.as_latex(made), encoding="utf-8")
    (folder / f"{name}.csv").write_text(typeset.as_csv(made), encoding="utf-8")


def section(folder, ending, title, records, settings):
    """What docs/results.md says about one protocol."""
    yield from average_table(settings)
    yield ""
    yield from (f"- {claim}" for claim in claims(settings))
    if title == "paper":
        yield ""
        yield from (f"- {line}" for line in sensitivity(folder, ending, settings))
    links = {(setting, record.event) for setting, all_ in settings.items() for one in all_.values() for record in one}
    yield ""
    yield f"{len(records):,} records about {len(links):,} links."


def replace_section(page, title, text):
    begin, end = f"<!-- {title} -->", f"<!-- /{title} -->"
    old = page.read_text(encoding="utf-8")
    before, rest = old.split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, default=Path("results/reproduction"))
    arguments.add_argument("--ending", default=".jsonl.gz", help="of the files of records")
    arguments.add_argument("--page", type=Path, default=Path("docs/results.md"), help="its sections are replaced")
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
            from cody.evaluate.figures import save_figures

            save_figures(records, options.folder / "figures")


if __name__ == "__main__":
    main()
