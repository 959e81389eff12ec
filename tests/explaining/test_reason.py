"""The reason of an answer: every claim of every sentence is recomputed from the document, by other code."""

import json
import re

import numpy as np
import pytest

from cody import Add, Explanation, Move, TemporalGraph, above, explain, in_top, rather_than
from cody.models import ToyModel
from cody.models.margins import probability
from cody.search import greedy

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
START = 1_082_040_960

NUMBER = r"(\d+)"
SPAN = r"(?:(\d+) )?(second|minute|hour|day)s?"
WHO = r"(?:(?P<way>from|between) (?P<a>\d+ others|\S+?) (?:to|and) (?P<b>\d+ others|\S+?)|among (?P<many>\d+) others)"
WHEN = (
    rf"(?:,? (?:in the last (?P<last>{SPAN})|within (?P<burst>{SPAN}), (?P<since>{SPAN}) before"
    rf"|(?P<same>at the same time)|(?P<low>\d+) to (?P<high>\d+) (?P<unit>second|minute|hour|day)s before"
    rf"|(?P<before>{SPAN}) before))"
)

SENTENCES = {
    r"^(?:Without|Even without) (?P<what>.*?), the model would (?P<not>still not |still |not |)predict this "
    r"(?:event|link)(?P<barely>, but only barely)?\.": "main",
    r"^ It suffices to remove any one of (?P<n>\d+) events(?P<which> .*?)?\.": "any_of",
    r"^ Most of it is the event (?P<what>.*?): with only this changed, the score is (?P<score>[\d.]+)\.": "most",
    r"^ (?P<which>Only both together matter|None of them matters alone): with a single one changed, the score is "
    r"still (?P<scores>[\d.]+(?: to [\d.]+)?)\.": "together",
    r"^ (?:It is|They are) older than the latest (?P<newer>\d+) of the (?P<past>\d+) past events considered\.": "older",
}


def span(text):
    number, unit = re.fullmatch(SPAN, text).groups()
    return (1 if number is None else int(number)) * SECONDS[unit], SECONDS[unit]


class Checker:
    """What a reason claims, recomputed from the JSON of an explanation."""

    def __init__(self, why):
        self.document = json.loads(why.to_json())
        assert Explanation.from_json(why.to_json()).reason == why.reason == self.document["reason"]
        columns = self.document["candidates"]
        names = ("row", "src", "dst", "time")
        self.events = {
            row: dict(
                zip(names, values, strict=True), edit=columns.get("edit", ["removed"] * len(columns["row"]))[place]
            )
            for place, (row, *_) in enumerate(zip(*(columns[name] for name in names), strict=True))
            for values in [[columns[name][place] for name in names]]
        }
        self.answer = [self.events[row] for row in self.document["rows"]]
        self.now = self.document["query"]["time"]
        self.margins = {frozenset(rows): logit for rows, logit in why.evaluated}
        self.text = self.document["reason"]

    def check(self):
        rest = self.text
        for pattern, test in SENTENCES.items():
            if found := re.match(pattern, rest):
                getattr(self, test)(found)
                rest = rest[found.end() :]
        assert rest == "", f"nobody checks {rest!r}"

    def main(self, found):
        without = self.document["logits"][-1]
        flipped = (self.document["logits"][0] > 0) != (without > 0)
        assert ("not" in found["not"]) == (without <= 0)
        assert ("still" in found["not"]) == (not flipped) == found[0].startswith("Even")
        assert bool(found["barely"]) == (flipped and abs(probability(without) - 0.5) < 0.01)
        what, rest = found["what"], list(self.answer)
        if conversation := re.fullmatch(
            rf"their (?:conversation|exchange) of the last ({SPAN}) \((\d+) events\)", what
        ):
            return self.conversation(span(conversation[1])[0], int(conversation[4]))
        if grouped := re.fullmatch(r"(?:(\d+) of|all) (\d+) past events \((.*)\)", what):
            assert int(grouped[1] or grouped[2]) == len(rest)
            assert int(grouped[2]) == sum(event["edit"] == "removed" for event in self.events.values())
            parts = re.split(r"; and |; |, and (?=\d)", grouped[3])
        elif what.startswith("the events "):
            parts = [f"1 {part}" for part in re.split(r"; and |; |, and ", what.removeprefix("the events "))]
        else:
            parts = [re.sub(r"^the event ", "1 ", re.sub(r"^(\d+) events ", r"\1 ", what))]
        ends = {self.document["src"], self.document["dst"]}
        for part in parts:
            claim = re.fullmatch(rf"(?P<n>\d+) {WHO}{WHEN}", part)
            assert claim, part
            chosen = [event for event in rest if self.fits(event, claim, ends)]
            if len(parts) == 1:
                chosen = rest
            group = self.pick(chosen, int(claim["n"]), claim, ends)
            rest = [event for event in rest if event not in group]
        assert rest == []

    def fits(self, event, claim, ends):
        own = {event["src"], event["dst"]}
        if claim["many"]:
            return not own & ends
        names = {claim["a"], claim["b"]}
        named = {name for name in names if not name.endswith(" others")}
        if len(named) == 2:
            return own <= names and (
                claim["way"] == "between" or (event["src"], event["dst"]) == (claim["a"], claim["b"])
            )
        return named <= own and not (own - named) & (ends - named)

    def pick(self, events, number, claim, ends):
        """The events of a group; who and when must be as it claims."""
        assert len(events) == number, (claim[0], events)
        pairs = {(event["src"], event["dst"]) for event in events}
        if claim["many"]:
            assert int(claim["many"]) == len({end for pair in pairs for end in pair} - ends)
        elif claim["way"] == "from":
            for place, name in enumerate((claim["a"], claim["b"])):
                found = {pair[place] for pair in pairs}
                assert len(found) == int(name.split()[0]) if name.endswith(" others") else found == {name}
        else:
            others = {end for pair in pairs for end in pair} - {claim["a"]}
            assert all(claim["a"] in pair for pair in pairs)
            assert (
                len(others) == int(claim["b"].split()[0]) if claim["b"].endswith(" others") else others == {claim["b"]}
            )
            assert len({pair[0] for pair in pairs}) > 1
            assert len({pair[1] for pair in pairs}) > 1
        self.period([self.now - event["time"] for event in events], claim)
        return events

    def period(self, ages, claim):
        oldest, newest = max(ages), min(ages)
        if claim["last"]:
            at_least, unit = span(claim["last"])
            assert at_least - unit < oldest <= at_least
        elif claim["burst"]:
            at_least, unit = span(claim["burst"])
            assert at_least - unit < oldest - newest <= at_least
            about, unit = span(claim["since"])
            assert abs(newest - about) <= unit / 2
        elif claim["same"]:
            assert oldest == newest == 0
        elif claim["before"]:
            about, unit = span(claim["before"])
            assert oldest == newest
            assert abs(oldest - about) <= unit / 2
        else:
            unit = SECONDS[claim["unit"]]
            assert int(claim["low"]) * unit <= newest < oldest <= int(claim["high"]) * unit

    def conversation(self, at_least, number):
        ends = {self.document["src"], self.document["dst"]}
        around = self.document["surroundings"]["events"]
        others = [{name: around[name][place] for name in ("src", "dst", "time")} for place in range(len(around["row"]))]
        oldest = max(self.now - event["time"] for event in self.answer)
        since = [
            event
            for event in (*self.events.values(), *others)
            if {event["src"], event["dst"]} == ends and self.now - event["time"] <= oldest
        ]
        assert len(self.answer) == number == len(since)
        assert len({event["src"] for event in self.answer}) == 2
        assert oldest <= at_least

    def singles(self):
        return {row: self.margins[frozenset({row})] for row in self.events if frozenset({row}) in self.margins}

    def any_of(self, found):
        original = self.document["logits"][0]
        does = [self.events[row] for row, logit in self.singles().items() if (logit > 0) != (original > 0)]
        assert len(self.answer) == 1
        assert len(does) == int(found["n"])
        if found["which"]:
            claim = re.fullmatch(rf"{WHO}{WHEN}", found["which"].strip())
            self.pick(does, len(does), claim, {self.document["src"], self.document["dst"]})

    def most(self, found):
        original, whole = self.document["logits"][0], self.document["logits"][-1] - self.document["logits"][0]
        claim = re.fullmatch(rf"{WHO}{WHEN}", found["what"])
        shares = {row: (self.singles()[row] - original) / whole for row in self.document["rows"]}
        row = max(shares, key=shares.get)
        self.pick([self.events[row]], 1, claim, set())
        assert shares[row] >= 0.5
        assert probability(self.singles()[row]) == pytest.approx(float(found["score"]), abs=0.005)

    def together(self, found):
        original, whole = self.document["logits"][0], self.document["logits"][-1] - self.document["logits"][0]
        alone = [self.singles()[row] for row in self.document["rows"]]
        assert (len(alone) == 2) == (found["which"] == "Only both together matter")
        assert all(abs((logit - original) / whole) <= 0.1 for logit in alone)
        scores = [float(score) for score in found["scores"].split(" to ")]
        for claimed, logit in zip((scores[0], scores[-1]), (min(alone), max(alone)), strict=True):
            assert claimed == pytest.approx(probability(logit), abs=0.005)

    def older(self, found):
        newest = max(event["time"] for event in self.answer)
        past = [event for event in self.events.values() if event["edit"] == "removed"]
        assert int(found["past"]) == len(past)
        assert int(found["newer"]) == sum(event["time"] > newest for event in past) >= len(past) / 2


def of(seed, **options):
    """An explanation of a random model of a random log, with few nodes, so that much has something in common."""
    rng = np.random.default_rng(seed)
    nodes, events = int(rng.integers(3, 12)), int(rng.integers(8, 70))
    src = rng.integers(0, nodes, events)
    dst = (src + rng.integers(1, nodes, events)) % nodes
    time = START + np.sort(rng.choice([60.0, 3600.0, 1e5, 1e6]) * rng.exponential(1.0, events).cumsum()).round()
    graph = TemporalGraph.from_arrays(src, dst, time)
    weights = np.abs(rng.normal(size=events)) * (rng.random(events) < rng.choice([0.2, 0.6, 1.0]))
    indirect, bias = rng.choice([0.0, 0.5]), -rng.uniform(0.1, 4.0)
    model = ToyModel(graph, weights=weights, bias=bias, indirect=indirect, half_life=1e9)
    return explain(model, graph, graph.query(events - 1), **options)


@pytest.mark.parametrize("seeds", [range(start, start + 40) for start in range(0, 240, 40)], ids=str)
def test_every_claim_follows_from_the_document(seeds):
    reasons = []
    for seed in seeds:
        why = of(seed) if seed % 3 else of(seed, search=greedy)
        reasons.append(why.reason)
        if why.rows and why.without is not None:
            Checker(why).check()
        else:
            assert why.reason == ""
    assert len(set(reasons)) > len(reasons) / 2


def test_the_checker_notices_a_false_number():
    why = next(why for why in map(of, range(100)) if "of them" in why.reason or len(why.rows) > 3)
    checker = Checker(why)
    checker.check()
    checker.text = re.sub(r"\d+", lambda digits: str(int(digits[0]) + 1), checker.text, count=1)
    with pytest.raises(AssertionError):
        checker.check()


def pair(*, weights, src, dst, times, **options):
    graph = TemporalGraph.from_arrays(src, dst, [START + 60.0 * minute for minute in times], names=list("abcdefg"))
    model = ToyModel(graph, weights=weights, half_life=1e9, **options)
    return explain(model, graph, graph.query(len(src) - 1))


def test_a_conversation_is_called_one_only_if_it_is_whole():
    given = {"src": [0, 1, 0, 1, 0], "dst": [1, 0, 1, 0, 1], "times": [0, 2000, 2010, 2015, 2020]}
    whole = pair(weights=[0, 1, 1, 1, 0], bias=-0.5, **given)
    assert whole.reason.startswith(
        "Without their exchange of the last 20 minutes (3 events), the model would not predict"
    )
    part = pair(weights=[0, 3, 0, 3, 0], bias=-2.5, **given)
    assert part.reason.startswith("Without 2 events from b to a in the last 20 minutes, the model would not predict")


def test_events_within_a_minute_of_each_other_say_so_with_the_number():
    why = pair(weights=[3, 3, 0], bias=-2.0, src=[1, 1, 0], dst=[0, 0, 1], times=[0, 1, 600])
    assert why.reason.startswith("Without 2 events from b to a within 1 minute, 10 hours before, the model would not")


def test_a_pair_that_works_only_together_says_so():
    given = {"src": [0, 2, 1, 0], "dst": [2, 1, 3, 1], "times": [0, 5, 6, 9]}
    why = pair(weights=[2, 2, 0, 0], pairs={(0, 1): -2.0}, bias=-1.0, **given)
    assert len(why.rows) == 2
    assert why.reason.endswith("Only both together matter: with a single one changed, the score is still 0.73.")
    either = pair(weights=[0, 0, 0, 0], pairs={(0, 1): 4.0}, bias=-2.0, **given)
    assert either.reason.endswith(
        "It suffices to remove any one of 2 events between c and 2 others, 4 to 9 minutes before."
    )


def test_a_fan_out_and_its_time():
    why = pair(
        weights=[1, 1, 1, 0, 0], bias=-0.5, src=[0, 0, 0, 2, 0], dst=[2, 3, 4, 3, 1], times=[0, 3, 5, 2000, 3000]
    )
    assert why.reason.startswith(
        "Without 3 events from a to 3 others within 5 minutes, 2 days before, the model would not"
    )


def test_what_nearly_fails_is_called_close():
    why = pair(weights=[2.03, 0], bias=-0.02, src=[0, 0], dst=[2, 1], times=[0, 5])
    assert "would not predict this event, but only barely." in why.reason
    assert "0.88 to 0.50:" not in why.sentence
    assert "to 0.495: no link" in why.sentence


def test_imagined_events_are_named():
    graph = TemporalGraph.from_arrays([0, 2, 0], [1, 1, 1], [START, START + 3600.0, START + 7200.0], names=list("abc"))
    longer = graph.imagine([Add("c", "a", START + 7140.0)])
    why = explain(ToyModel(longer, weights=[0, 0, 0, 5], bias=-1.0, half_life=1e9), longer, longer.query(2))
    assert why.reason == "With an event from c to a, 1 minute before, the model would predict this event."
    longer = graph.imagine([Move(1, START + 7140.0)])
    model = ToyModel(longer, weights=[0, 5, 0, 20], bias=-1.0, half_life=60.0)
    moved = explain(model, longer, longer.query(2))
    begin = "With the event from c to b moved from 60 minutes before to 1 minute before, "
    assert moved.reason == f"{begin}the model would predict this event."


def test_any_of_several_senders():
    names, times = list("abcdef"), [START + 60.0 * row for row in range(5)]
    graph = TemporalGraph.from_arrays([2, 3, 4, 5, 0], [3, 4, 5, 2, 1], times, names=names)
    longer = graph.imagine([Add(sender, "b", START + 200.0) for sender in "cde"])
    why = explain(ToyModel(longer, bias=-0.5, half_life=1e9), longer, longer.query(4))
    assert why.reason.endswith("It suffices to add an event from any of 3 senders to b.")


@pytest.mark.parametrize(
    ("decision", "end"),
    [
        (above(0.6), "the model would not predict this event."),
        (rather_than("c"), "c would be ranked above b."),
        (in_top(1), "b would not be in the top 1."),
    ],
    ids=["threshold", "rather", "top"],
)
def test_other_decisions_have_their_own_words(decision, end):
    graph = TemporalGraph.from_arrays(
        [4, 5, 4, 0], [1, 2, 5, 1], [START + 60.0 * row for row in range(4)], names=list("abcdef")
    )
    why = explain(ToyModel(graph, weights=[3, 1, 0, 0], half_life=1e9), graph, graph.query(3), decision=decision)
    assert why.is_counterfactual
    assert why.reason.startswith("Without the event from e to b, 3 minutes before, ")
    assert end in why.reason
    assert Explanation.from_json(why.to_json()).reason == why.reason


def test_times_that_are_not_dates_are_numbers():
    graph = TemporalGraph.from_arrays([0, 2, 0, 0], [2, 0, 2, 1], [1.0, 2.5, 3.0, 4.0])
    why = explain(ToyModel(graph, weights=[1, 1, 1, 0], bias=-0.5, half_life=1e9), graph, graph.query(3))
    assert why.reason.startswith("Without 3 events between 0 and 2 at times 1 to 3, the model would not predict")


def test_what_flips_nothing_says_even():
    graph = TemporalGraph.from_arrays([0, 2, 0], [2, 0, 1], [START, START + 60.0, START + 120.0])
    why = explain(ToyModel(graph, weights=[1, 1, 0], bias=5.0, half_life=1e9), graph, graph.query(2))
    assert why.reason.startswith(
        "Even without 2 events between 0 and 2, 1 to 2 minutes before, the model would still predict"
    )


def test_units_are_named_as_the_answer_names_them():
    from cody.graph.units import pair as by_pair

    graph = TemporalGraph.from_arrays(
        [0, 2, 0, 2, 0], [2, 0, 2, 3, 1], [START + 60.0 * row for row in range(5)], names=list("abcd")
    )
    why = explain(ToyModel(graph, weights=[1, 1, 1, 0, 0], bias=-0.5, half_life=1e9), graph, graph.query(4), by=by_pair)
    assert why.is_counterfactual
    begin, _, _ = why.sentence.partition(" the score")
    assert why.reason == f"{begin}, the model would not predict this event."
