"""A model that predicts a number: which rating a trader of bitcoin-otc will be given, from -10 to 10.

A command about it, in this folder:

cody explain --data bitcoin-otc --model expected_rating:model --event 35175 --between -10..0
"""

from cody.adapters import from_steps

USUAL = 1.0  # the mean of all ratings, which counts like this many
WEIGHT = 2


def expected(query, past):
    """The mean of the ratings that the target has been given so far, drawn towards the usual one."""
    events = past.events
    given = 10 * events.features[events.dst == query.dst, 0]
    return (given.sum() + WEIGHT * USUAL) / (len(given) + WEIGHT)


def model(graph):
    """The model of a log whose first feature is the rating, divided by 10."""
    return from_steps(graph, score=expected, identity="expected rating", hops=1)
