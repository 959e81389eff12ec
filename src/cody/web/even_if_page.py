"""The page of an even-if answer: what could be missing, what is enough, and how robust a decision is, in one file."""

from __future__ import annotations

from collections.abc import Iterator

from cody.explaining import even_if_words as words
from cody.explaining.even_if import EvenIf
from cody.utils.words import count, is_date, sanitize, zone_name
from cody.web.head import about_data
from cody.web.markup import Markup, card, percent, report_head, row, table, tag, tile
from cody.web.page import report_page

HEIGHT = 40  # pixels of the strip of candidates


def even_if_page(found: EvenIf) -> str:
    """An even-if answer as a self-contained HTML file."""
    parts = [_head(found), _strip(found), *([_kept(found)] if found.kept else []), _certainty(found)]
    title = f"Even if: {sanitize(found.src, 40)} → {sanitize(found.dst, 40)}"
    return report_page(title, *parts)


def _head(found: EvenIf) -> Markup:
    checked = words.verification(found)
    badges = [
        tag.li(f"✓ {checked.rstrip('.').lower()}", class_="good") if checked else None,
        tag.li("✓ no smaller set is enough", class_="good") if found.kept and found.smallest else None,
        f"{count(found.evaluations, 'set')} evaluated",
        f"times: {zone_name()}" if is_date(found.time) else None,
    ]
    occasion, sentence = " · ".join(filter(None, ["Even if", about_data(found.data)])), words.sentence(found)
    question = sanitize(words.question(found), 300)
    return report_head(occasion, sanitize(sentence, 400), (), badges, _tiles(found), question=question)


def _tiles(found: EvenIf) -> Iterator[Markup]:
    total = f"of {count(len(found.candidates), f'past {found.thing}')}"
    if found.kept is not None:
        yield tile(f"{len(found.candidates) - len(found.kept):,}", "could be missing together", total)
        rest = "with nothing else in the history" if found.alone else "among the candidates; all other events stay"
        yield tile(f"{len(found.kept):,}", "would be enough", rest)
    if found.robust:
        some = "can be removed, whichever it is" if found.robust == 1 else "can be removed, whichever they are"
        yield tile(f"{found.robust:,}", some, "every such removal was evaluated")


def _strip(found: EvenIf) -> Markup:
    """The candidates in the order of the log, with those that are kept."""
    kept, decisive = set(found.kept_rows), set(found.decisive or ())
    decisive = decisive if len(decisive) <= words.FEW else set()  # as in the words
    rows = sorted(found.candidates)
    bars = [
        tag.rect(
            tag.title(f"event {row}"),
            x=percent((place + 0.1) / len(rows)),
            width=percent(0.8 / len(rows)),
            y=0 if row in kept else HEIGHT * 0.3,
            height=HEIGHT if row in kept else HEIGHT * 0.4,
            class_=" ".join(["kept"] * (row in kept) + ["decisive"] * (row in decisive)) or "missing",
        )
        for place, row in enumerate(rows)
    ]
    label = f"{len(rows)} candidates, {len(kept)} of them kept"
    drawn = tag.svg(*bars, width="100%", height=HEIGHT, role="img", aria_label=label, class_="strip")
    ends = tag.p(tag.span("oldest"), tag.span("latest"), class_="strip-ends")
    together = f"removing {'this one' if len(decisive) == 1 else 'these together'} changes the decision"
    legend = [("kept", "kept", bool(kept)), ("missing", "could be missing", len(kept) < len(rows))]
    legend += [("decisive", together, bool(decisive))]
    keys = (tag.li(tag.i(class_=f"strip-{kind}"), text) for kind, text, shown in legend if shown)
    return card(
        "past",
        f"The {count(len(rows), f'past {found.thing}')}",
        "In the order in which they happened.",
        drawn,
        ends,
        tag.ul(*keys, class_="legend"),
    )


def _kept(found: EvenIf) -> Markup:
    kept = words.kept_table(found)
    rows = (row(*(sanitize(each, 60) for each in cells)) for cells in kept.rows)
    made = table(kept.headings, rows, "kept-events")
    return card("kept", "What it rests on", words.enough(found), tag.div(made, class_="scrolled", tabindex=0))


def _certainty(found: EvenIf) -> Markup:
    notes = words.certificate(found), words.since(found), words.unit(found), words.only(found)
    listed = (tag.li(sanitize(note, 400)) for note in notes if note)
    return card("certainty", "How robust it is", "", tag.ul(*listed, class_="notes"))
