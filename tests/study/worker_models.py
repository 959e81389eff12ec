"""What the workers of the tests open. Imports no torch: that would be most of a worker's time."""

import os
import signal

from cody.data import open_graph
from cody.errors import ModelError
from cody.models.toy import ToyModel


class Deadly(ToyModel):
    """A model that ends its process when it is asked about a link, as often as there are files in a folder."""

    identity = "Deadly"

    def __init__(self, graph, folder, event):
        super().__init__(graph)
        self.folder, self.event = folder, event

    def logits(self, query, removals):
        if query.before == self.event:
            for left in sorted(self.folder.iterdir())[:1]:
                left.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().logits(query, removals)


class DeadlyLater(Deadly):
    """Ends its process only when the second of two explainers asks."""

    explainers = 0

    def forget(self):
        self.explainers += 1

    def logits(self, query, removals):
        judge = ToyModel if self.explainers % 2 else Deadly
        return judge.logits(self, query, removals)


class Failing(ToyModel):
    def logits(self, query, removals):
        raise ModelError("this model has a headache")


def open_toy(folder, make=ToyModel):
    graph = open_graph(folder)
    return make(graph), graph


def open_deadly(folder, deaths, event, make=Deadly):
    graph = open_graph(folder)
    return make(graph, deaths, event), graph


def die(folder):
    os._exit(7)
