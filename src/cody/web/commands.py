"""Commands that ask again what an explanation answers: its decision, its search, and edits, as options."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cody.explaining.explanation import Event, Explanation
from cody.graph.neighbourhood import SIZE
from cody.models.deciding import entered
from cody.models.decision import Decision, InTop
from cody.study.explainers import DEFAULT_SEARCH, EDITS, NEAR, SEARCHES

# How options name what a search was given, by the names of the functions; defaults are not written.
NEAR_OPTION = {near.__name__: name for name, near in NEAR.items() if name != "ends"}
SEARCH_OPTION = {search.__name__: name for name, (_, search, _) in SEARCHES.items() if name != DEFAULT_SEARCH}
EDIT_OPTION = {edit.__name__: name for name, edit in EDITS.items()}


def command(why: Explanation, name: str) -> str:
    """A command about the decision of an explanation, by its name, without further options."""
    words = ["cody", name]
    for option in ("data", "model"):
        if isinstance(why.parameters.get(option), str):
            words += [f"--{option}", why.parameters[option]]
    if why.event is not None:
        return shlex.join([*words, "--event", str(why.event), *decision_options(why.decision)])
    subject = ["--node", why.src] if why.subject == "node" else ["--src", why.src, "--dst", why.dst]
    return shlex.join([*words, *subject, "--time", repr(why.query.time), *decision_options(why.decision)])


def explain_command(why: Explanation, option: str) -> str:
    """The command of the same search with another option, which replaces the one that the search had."""
    wanted, _, value = option.partition(" ")
    given = [pair for pair in _search_options(why.parameters) if pair[0] != wanted]
    listed = [shlex.join(filter(None, pair)) for pair in given]
    return " ".join([command(why, "explain"), *listed, f"{wanted} {value}".strip()])


def _search_options(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a search was given besides the defaults, as far as there is an option for it."""
    by, rule = parameters.get("by") or {}, parameters.get("dependants")
    if by.get("name", "event") != "event":
        yield "--by", by["name"]
        if "gap" in by:
            yield "--gap", f"{by['gap']:.15g}s"
        if by.get("ends"):
            yield "--with-ends", ""
    if rule:
        yield "--with-dependants", f"{rule['name']} {rule['within']:.15g}s" if "within" in rule else rule["name"]
    near, edits = parameters["candidates"].get("near"), [EDIT_OPTION.get(name) for name in parameters.get("edits", ())]
    if near in NEAR_OPTION:
        yield "--near", NEAR_OPTION[near]
    if edits not in ([], ["remove"]) and None not in edits:
        yield "--allow", ",".join(filter(None, edits))
    yield from (("--protect", text) for text in _protected(parameters.get("protect") or {}))
    if (size := parameters["candidates"].get("size", SIZE)) != SIZE:
        yield "--candidates", str(size)
    if (search := parameters["search"]["name"]) in SEARCH_OPTION:
        yield "--explainer", SEARCH_OPTION[search]
    if parameters.get("evaluations") is not None:
        yield "--evaluations", str(parameters["evaluations"])
    if parameters.get("prove", 1) > 1:
        yield "--prove", str(parameters["prove"])


def _protected(protect: Mapping[str, Any]) -> Iterator[str]:
    """Protected events as `--protect` has them."""
    if protect.get("events"):
        yield f"events={','.join(map(str, protect['events']))}"
    if protect.get("nodes"):
        yield f"nodes={_listed(protect['nodes'])}"
    yield from (f"times={first!r}..{last!r}" for first, last in protect.get("times", ()))
    if protect.get("simultaneous"):
        yield "simultaneous"


def edit_option(event: Event) -> str | None:
    """An edit as an option; empty for removals, which share one option; None where names of features are not known."""
    if event.edit == "added":
        return shlex.join(["--add", shlex.join([event.src, event.dst, repr(event.time)])])
    if event.edit == "moved":
        return shlex.join(["--move", f"{event.replaces} {event.time!r}"])
    return _alter_option(event) if event.edit == "altered" else ""


def _alter_option(event: Event) -> str | None:
    """The features that are altered, by the names in `carries`, which reads "rating −10 → 10, weight 2"."""
    parts = event.carries.split(", ")
    if event.features is None or len(parts) != len(event.features):  # too many to be named, or a comma in a name
        return None
    pairs = zip(parts, event.features, strict=True)
    altered = [f"{part.partition(' → ')[0].rpartition(' ')[0]}={value:.9g}" for part, value in pairs if " → " in part]
    return shlex.join(["--alter", shlex.join([str(event.replaces), *altered])])


def decision_options(decision: Decision) -> list[str]:
    """A decision as options of the command line; none for what is decided by default."""
    name, text = entered(decision)
    if (name, text) in (("", ""), ("threshold", "0.5")):
        return []
    among = ["--among", _listed(decision.among)] if isinstance(decision, InTop) and decision.among is not None else []
    return [f"--{name.replace('_', '-')}", text, *among]


def _listed(names: Sequence[str]) -> str:
    """Names with commas between them, in quotes where they have some themselves, as the command line reads them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
