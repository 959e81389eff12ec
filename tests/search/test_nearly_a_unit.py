"""What a set of events nearly is: a conversation, a node, or a day."""

from cody import TemporalGraph
from cody.search.space import nearly_a_unit


def test_times_that_grow_into_dates_have_no_days():
    """Seconds since the first event: after three years they could be seconds since 1970."""
    graph = TemporalGraph.from_arrays([0, 0, 0, 1, 0], [1, 1, 1, 2, 1], [0.0, 9.9e7, 9.9e7, 9.95e7, 1.01e8])
    unit, shared = nearly_a_unit(graph, graph.query(4), [0, 1, 2])
    assert unit.rows.tolist() == [0, 1, 2]
    assert shared == 3
