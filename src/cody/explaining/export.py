"""An explanation as a table, as a graph of NetworkX or PyTorch Geometric, and as Cypher. Libraries come on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from cody.errors import CallError
from cody.models.decision import Above, State
from cody.utils.extras import needed_by
from cody.utils.frames import frame_of_kind
from cody.utils.words import is_date

if TYPE_CHECKING:
    import networkx
    from torch_geometric.explain import Explanation as PygExplanation

    from cody.explaining.explanation import ChangedUnit, Event, Explanation

ESCAPE = re.compile(r"(\\\\)u|\\.")  # of JSON; the first is a backslash, then the letter
NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # not even escaped
ANSWER, CANDIDATE, CONTEXT, QUERY = "answer", "candidate", "context", "query"  # what an edge is to the explanation


def known_events(why: Explanation) -> dict[int, Event]:
    """All events whose nodes and times an explanation knows, by row."""
    around = () if why.surroundings is None else why.surroundings.events
    return {event.row: event for event in (*around, *why.unit_events, *why.candidates)}


def effects(why: Explanation) -> dict[int, float]:
    """How far the logit (or margin) moves where one candidate alone is changed."""
    return {rows[0]: logit - why.original for rows, logit in why.evaluated if len(rows) == 1}


def to_frame(why: Explanation, kind: str) -> Any:
    """The table of `Explanation.to_frame`, of a kind."""
    import pandas

    rows = [
        {
            "event": event.row,
            **_figures_of_unit(why.unit(event.row)),
            **{name: getattr(event, name) for name in ("edit", "src", "dst", "time")},
            "before": why.query.time - event.time,
            **_figures(why, state),
            "features": event.carries,
        }
        for (event, _), state in zip(why.steps, why.states[1:], strict=True)
    ]
    figures = list(_figures(why, why.states[0]))
    units = ["unit", "events", "dependants"] if why.units else []
    columns = ["event", *units, "edit", "src", "dst", "time", "before", *figures]
    with_features = ["features"] * any(event.carries for event in why.candidates)
    frame = pandas.DataFrame(rows, columns=columns + with_features)
    if rows and all(map(is_date, [why.query.time, *frame["time"]])):
        frame["time"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
        frame["before"] = pandas.to_timedelta(frame["before"], unit="s")
    return frame_of_kind(frame, kind)


def _figures_of_unit(unit: ChangedUnit | None) -> dict[str, Any]:
    """What a table has of the unit that a candidate stands for."""
    if unit is None:
        return {"unit": "", "events": 1, "dependants": 0}
    return {"unit": unit.name, "events": len(unit.rows), "dependants": len(unit.dependants)}


def _figures(why: Explanation, state: State) -> dict[str, Any]:
    """What a table has of the decision under one history."""
    margin, decision = state.margin, why.decision
    if isinstance(decision, Above):
        logit = None if margin is None else margin + decision.line
        figures: dict[str, Any] = {"logit": logit, "score": None if margin is None else decision.score(margin)}
    else:
        figures = {"margin": margin, decision.headings[1] or "figure": decision.figure(state)}
    return figures | {"predicted": None if margin is None else margin > 0}


def to_networkx(why: Explanation) -> networkx.MultiDiGraph:
    """The graph of `Explanation.to_networkx`."""
    with needed_by("why.to_networkx()"):
        import networkx

    graph = networkx.MultiDiGraph(sentence=why.sentence, verdict=why.verdict, model=why.model, data=why.data)
    for name, hops in () if why.surroundings is None else why.surroundings.nodes:
        graph.add_node(_writable(name), hops=hops)
    candidates, alone = {event.row for event in why.candidates}, effects(why)
    for row, event in sorted(known_events(why).items()):
        role = _role(why, row, candidates)
        known = {"effect": alone.get(row), "replaces": event.replaces, "features": event.carries or None}
        known |= {"edit": None if role == CONTEXT else event.edit}
        given = {name: value for name, value in known.items() if value is not None}  # GraphML has no null
        graph.add_edge(*map(_writable, event[1:3]), key=row, role=role, time=event.time, **given)
    graph.add_edge(*map(_writable, (why.src, why.dst)), key=-1, role=QUERY, time=why.query.time, margin=why.original)
    return graph


def _writable(name: str) -> str:
    """A name as GraphML and GEXF can have it: other characters by their numbers."""
    return NOT_IN_XML.sub(lambda found: f"\\x{ord(found[0]):02x}", name)


def to_cypher(why: Explanation) -> str:
    """The text of `Explanation.to_cypher`."""
    events, candidates, alone = known_events(why), {event.row for event in why.candidates}, effects(why)
    names = dict.fromkeys([why.src, why.dst, *(end for event in events.values() for end in event[1:3])])
    lines = [f"MERGE (:Node {{name: {_quoted(name)}}});" for name in names]
    for row, event in sorted(events.items()):
        fields = {"row": row, "role": _role(why, row, candidates), "time": event.time, "effect": alone.get(row)}
        if row in candidates:
            fields |= {"edit": event.edit, "replaces": event.replaces, "features": event.carries or None}
        lines.append(_relation(event.src, event.dst, fields))
    link = {"row": -1, "role": QUERY, "time": why.query.time, "margin": why.original, "sentence": why.sentence}
    return "\n".join([*lines, _relation(why.src, why.dst, link)]) + "\n"


def _role(why: Explanation, row: int, candidates: Collection[int]) -> str:
    """What an edge is to the explanation."""
    return ANSWER if row in why.change else CANDIDATE if row in candidates else CONTEXT


def _relation(src: str, dst: str, fields: dict[str, Any]) -> str:
    """The statement that creates one event between two nodes."""
    written = ", ".join(f"{name}: {_quoted(value)}" for name, value in fields.items() if value is not None)
    ends = f"MATCH (a:Node {{name: {_quoted(src)}}}), (b:Node {{name: {_quoted(dst)}}})"
    return f"{ends} CREATE (a)-[:EVENT {{{written}}}]->(b);"


def _quoted(value: str | float) -> str:
    """A literal of Cypher: numbers as they are, and texts in which nothing can end the text, by the escapes of JSON.

    Some versions of Cypher replace `\\uXXXX` before they read a text, whatever stands before it: then a name that has
    these six characters could end its text. So a u after a backslash is an escape itself.
    """
    text = json.dumps(value, ensure_ascii=False)
    return ESCAPE.sub(lambda found: rf"{found[1]}\u0075" if found[1] else found[0], text)


def to_pyg(why: Explanation, data: Any = None) -> PygExplanation:
    """The object of `Explanation.to_pyg`."""
    with needed_by("why.to_pyg()", "pyg"):
        import torch
        from torch_geometric.explain import Explanation as PygExplanation

    alone = effects(why)
    if data is None:
        events = known_events(why)
        rows = sorted(events)
        names = list(dict.fromkeys([why.src, why.dst, *(end for row in rows for end in events[row][1:3])]))
        number = {name: place for place, name in enumerate(names)}
        ends = [[number[events[row].src], number[events[row].dst]] for row in rows]
        given: dict[str, Any] = {
            "edge_index": torch.tensor(ends, dtype=torch.long).view(-1, 2).T,
            "t": torch.tensor([events[row].time for row in rows], dtype=torch.float64),
            "edge_label_index": torch.tensor([[number[why.src]], [number[why.dst]]]),
            "num_nodes": len(names),
            "node_names": names,
        }
    else:
        if why.imagined:
            raise CallError("the answer adds or changes events, which have no place in these data; use why.to_pyg()")
        if any(getattr(data, name, None) is None for name in ("src", "dst", "t")):
            raise CallError(f"data must be a TemporalData with src, dst and t, not {type(data).__name__}")
        rows = list(range(len(data.src)))
        if (last := max(why.change, default=-1)) >= len(rows):
            raise CallError(f"these data have {len(rows)} events, but the answer names event {last}")
        given = {"edge_index": torch.stack([data.src, data.dst]).long(), "t": data.t, "num_nodes": data.num_nodes}
        given["edge_label_index"] = torch.tensor([[why.query.src], [why.query.dst]])
    mask = torch.tensor([float(row in why.change) for row in rows])
    node_mask = torch.zeros(given["num_nodes"], 1)
    node_mask[given["edge_index"][:, mask > 0].reshape(-1)] = 1
    return PygExplanation(
        event=torch.tensor(rows, dtype=torch.long),
        edge_mask=mask,
        node_mask=node_mask,
        effect=torch.tensor([alone.get(row, torch.nan) for row in rows]),
        **given,
    )
