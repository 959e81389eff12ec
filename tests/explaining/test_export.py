"""Explanations in the forms of other libraries."""

import json
import re
import sys

import numpy as np
import pytest

import cody
from cody.errors import CallError, MissingExtraError
from cody.explaining.export import _quoted
from cody.graph import TemporalGraph
from cody.models import ToyModel
from cody.search.proposals import additions, removals


@pytest.fixture(scope="module")
def why():
    graph = cody.load("collegemsg")
    return cody.explain(cody.load_model("tgn-collegemsg", graph), graph, graph.query(53_869))


@pytest.fixture(scope="module")
def with_added():
    graph = cody.load("collegemsg")
    model = cody.load_model("tgn-collegemsg", graph)
    return cody.explain(model, graph, graph.query(53_852), edits=(removals, additions))


@pytest.fixture(scope="module")
def strange_names():
    names = ["é <b>", "a;b", 'c "d"', " "]
    graph = TemporalGraph.from_arrays([0, 2, 0, 0], [1, 3, 2, 1], [1.0, 2.0, 3.0, 4.0], names=names)
    return cody.explain(ToyModel(graph, weights=[1.0, 0.0, 0.0, 0.0], bias=-0.5), graph, graph.query(3))


def test_networkx_has_every_candidate_once_with_its_time_and_effect(why):
    pytest.importorskip("networkx", reason="the extra networkx is not installed")
    edges = {key: (a, b, said) for a, b, key, said in why.to_networkx().edges(keys=True, data=True)}
    for event in why.candidates:
        a, b, said = edges[event.row]
        assert (a, b, said["time"], said["edit"]) == (event.src, event.dst, event.time, event.edit)
    assert {key for key, (_, _, said) in edges.items() if said["role"] == "answer"} == set(why.removed)
    alone = {rows[0]: logit for rows, logit in why.evaluated if len(rows) == 1}
    assert alone
    assert all(edges[row][2]["effect"] == pytest.approx(logit - why.original) for row, logit in alone.items())
    assert edges[-1][:2] == (why.src, why.dst)


def test_networkx_graphs_can_be_written_for_gephi_and_read_back(why, with_added, strange_names, tmp_path):
    networkx = pytest.importorskip("networkx", reason="the extra networkx is not installed")
    for number, each in enumerate((why, with_added, strange_names)):
        graph = each.to_networkx()
        networkx.write_graphml(graph, file := tmp_path / f"{number}.graphml")
        networkx.write_gexf(graph, tmp_path / f"{number}.gexf")
        again = networkx.read_graphml(file)
        assert set(again.nodes) == set(graph.nodes)
        roles = sorted(role for *_, role in graph.edges(data="role"))
        assert sorted(role for *_, role in again.edges(data="role")) == roles
        assert len(networkx.read_gexf(tmp_path / f"{number}.gexf").edges) == len(graph.edges)


def test_characters_that_xml_forbids_are_written_by_their_numbers(tmp_path):
    networkx = pytest.importorskip("networkx", reason="the extra networkx is not installed")
    graph = TemporalGraph.from_arrays([0, 1, 0], [1, 0, 1], [1.0, 2.0, 3.0], names=["a\x00b\ufffe", "tab\t🦊"])
    around = cody.explain(ToyModel(graph), graph, graph.query(2)).to_networkx()
    assert set(around.nodes) == {"a\\x00b\\xfffe", "tab\t🦊"}
    networkx.write_graphml(around, tmp_path / "why.graphml")
    networkx.write_gexf(around, tmp_path / "why.gexf")
    assert set(networkx.read_graphml(tmp_path / "why.graphml").nodes) == set(around.nodes)
    assert set(networkx.read_gexf(tmp_path / "why.gexf").nodes) == set(around.nodes)


def test_imagined_edges_are_in_the_graph_and_said_to_be_added(with_added):
    pytest.importorskip("networkx", reason="the extra networkx is not installed")
    added, *_ = with_added.imagined
    said = {key: said for *_, key, said in with_added.to_networkx().edges(keys=True, data=True)}
    assert (said[added]["role"], said[added]["edit"]) == ("answer", "added")


def test_pyg_masks_are_the_answer_and_pass_the_librarys_own_checks(why):
    pytest.importorskip("torch_geometric", reason="the extra pyg is not installed")
    explanation = why.to_pyg()
    assert explanation.validate_masks(raise_on_error=True)
    assert explanation.event[explanation.edge_mask > 0].tolist() == sorted(why.removed)
    names = np.array(explanation.node_names)
    pairs = names[explanation.edge_index.numpy().T]
    ends = dict(zip(explanation.event.tolist(), map(tuple, pairs), strict=True))
    assert all(ends[event.row] == (event.src, event.dst) for event in why.candidates)
    assert explanation.get_explanation_subgraph().num_edges == len(why.removed)
    assert tuple(names[explanation.edge_label_index.flatten().numpy()]) == (why.src, why.dst)


def test_pyg_masks_on_the_users_own_temporal_data(why, with_added):
    pytest.importorskip("torch_geometric", reason="the extra pyg is not installed")
    import torch
    from torch_geometric.data import TemporalData

    graph = cody.load("collegemsg")
    src, dst, t = (torch.from_numpy(np.array(column)) for column in (graph.src, graph.dst, graph.time))
    explanation = why.to_pyg(TemporalData(src=src.long(), dst=dst.long(), t=t))
    assert explanation.validate_masks(raise_on_error=True)
    assert explanation.edge_mask.nonzero().flatten().tolist() == sorted(why.removed)
    small = TemporalData(src=src[:3].long(), dst=dst[:3].long(), t=t[:3])
    with pytest.raises(CallError, match="these data have 3 events"):
        why.to_pyg(small)
    with pytest.raises(CallError, match="no place in these data"):
        with_added.to_pyg(small)


def test_other_data_than_the_users_temporal_data_are_refused(why):
    pytest.importorskip("torch_geometric", reason="the extra pyg is not installed")
    from torch_geometric.data import Data

    for data in ("events.csv", Data(), why):
        with pytest.raises(CallError, match=f"TemporalData with src, dst and t, not {type(data).__name__}"):
            why.to_pyg(data)


def test_a_frame_is_a_polars_frame_in_one_call(why):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    for frame in (polars.DataFrame(why.to_frame()), why.to_frame("polars")):
        assert frame["event"].to_list() == list(why.rows)
        assert frame["time"].dtype.time_zone == "UTC"


def test_a_frame_is_an_arrow_table_and_nothing_unknown(why):
    assert why.to_frame("arrow")["event"].to_pylist() == list(why.rows)
    with pytest.raises(CallError, match="there are no frames called 'polar'; did you mean 'polars'"):
        why.to_frame("polar")


def test_polars_that_is_missing_is_named(why, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="pip install polars"):
        why.to_frame("polars")


def test_cypher_has_every_event_once_and_nothing_in_a_name_ends_its_text(why, with_added, strange_names):
    for each in (why, with_added, strange_names):
        nodes, edges = [], []
        for line in each.to_cypher().splitlines():
            names = [json.loads(text) for text in re.findall(r'\{name: ("(?:[^"\\]|\\.)*")\}', line)]
            if line.startswith("MERGE (:Node {name: "):
                nodes += names
            else:
                row, role = re.search(r'\[:EVENT \{row: (-?\d+), role: "(\w+)", time: ', line).groups()
                edges.append((*names, int(row), role))
        assert len(nodes) == len(set(nodes))
        graph = pytest.importorskip("networkx") and each.to_networkx()
        assert set(nodes) == {end for *ends, _ in graph.edges(keys=True) for end in ends}
        expected = [(a, b, row, role) for a, b, row, role in graph.edges(keys=True, data="role")]
        assert sorted(edges) == sorted(expected)


@pytest.mark.parametrize("name", ["\\u0022}) DETACH DELETE n //", "\\\\u0022", "\\\x01u", "\\", "u", '\\"', "a\nb"])
def test_no_escape_of_a_name_ends_its_text_where_cypher_reads_escapes_first(name):
    quoted = _quoted(name)
    assert json.loads(quoted) == name
    read_first = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), quoted)
    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"', read_first, re.DOTALL)
    assert read_first.count('"') == 2 + name.count('"')
