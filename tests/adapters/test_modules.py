"""Modules in other forms than the plain one: each is supported, or refused with one clear error."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from adapters.pyg_models import random_tgn
from adapters.test_predictor import Mean
from adapters.test_pyg import wrapped
from cody.adapters import dyglib
from cody.errors import ModelError, PrecisionWarning
from random_events import random_graph

GRAPH = random_graph(np.random.default_rng(4), edge_features=2)
CHANGES = [frozenset(), frozenset({50}), frozenset(range(30, 60))]


def answers(model):
    return model.logits(model.graph.query(60), CHANGES)


class Linear(nn.Module):
    """A link predictor of DyGLib."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.out = nn.Linear(8, 1)

    def forward(self, input_1, input_2):
        return self.out(torch.cat([input_1, input_2], dim=-1))


def quietly(make, *given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*given)


def traced(module):
    width = next(module.parameters()).shape[1]
    width = width if not isinstance(module, Linear) else 4
    return quietly(torch.jit.trace, module, (torch.zeros(3, width), torch.zeros(3, width)))


FORMS = {
    "compiled": lambda module: quietly(torch.compile, module),
    "parallel": nn.DataParallel,
    "compiled and parallel": lambda module: nn.DataParallel(quietly(torch.compile, module)),
    "traced": traced,
    "scripted": lambda module: quietly(torch.jit.script, module),
    "frozen": lambda module: quietly(torch.jit.freeze, quietly(torch.jit.script, module.eval())),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_predictor_in_another_form_gives_the_same_answers(form):
    tgn, data = random_tgn(GRAPH)
    expected = answers(wrapped(tgn, data))
    np.testing.assert_allclose(answers(wrapped(tgn._replace(link_predictor=form(tgn.link_predictor)), data)), expected)
    backbone, predictor = Mean(GRAPH), Linear()
    expected = answers(dyglib.wrap(backbone, predictor, data=GRAPH))
    np.testing.assert_allclose(answers(dyglib.wrap(backbone, form(predictor), data=GRAPH)), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single_precision_with_a_warning(dtype):
    tgn, data = random_tgn(GRAPH)
    for module in tgn:
        module.to(dtype)
    with pytest.warns(PrecisionWarning, match=f"is in {str(dtype)[6:]}, .* computed in single precision") as caught:
        model = wrapped(tgn, data)
    assert caught[0].filename.endswith("test_pyg.py")  # where the user's call is
    same = tgn._replace(**{name: copy.deepcopy(module).float() for name, module in tgn._asdict().items()})
    np.testing.assert_array_equal(answers(model), answers(wrapped(same, data)))
    assert next(tgn.gnn.parameters()).dtype is dtype
    with pytest.warns(PrecisionWarning, match="computed in single precision"):
        dyglib.wrap(Mean(GRAPH), Linear().to(dtype), data=GRAPH)


def quantised(module):
    return quietly(torch.ao.quantization.quantize_dynamic, module, {nn.Linear})


def diverged(module):
    module = copy.deepcopy(module)
    with torch.no_grad():
        next(module.conv.parameters())[0] = torch.nan
    return module


class Undefined(nn.Module):
    """A link predictor that divides nothing by nothing."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *ends):
        return self.module(*ends) * 0 / 0


def test_what_cannot_give_one_answer_is_refused_with_one_clear_error():
    tgn, data = random_tgn(GRAPH)
    elsewhere = copy.deepcopy(tgn.gnn).to("meta")
    for changed, message in (
        (
            {"link_predictor": quantised(tgn.link_predictor)},
            "link_predictor is quantised: .* give the module that it was",
        ),
        (
            {"gnn": elsewhere},
            r"memory is on the device 'cpu' and gnn on 'meta'; move all modules to one, .*\.to\('cpu'\)",
        ),
        ({"gnn": diverged(tgn.gnn)}, r"parameter 'gnn\.conv\.\S+' holds a NaN or an infinity: did training"),
        ({"link_predictor": Undefined(tgn.link_predictor)}, "the logits of the modules are NaN on a few test events"),
        ({name: copy.deepcopy(module).to("meta") for name, module in tgn._asdict().items()}, "which has no weights"),
    ):
        with pytest.raises(ModelError, match=message):
            wrapped(tgn._replace(**changed), data)
    with pytest.raises(ModelError, match="link_predictor is quantised"):
        dyglib.wrap(Mean(GRAPH), quantised(Linear()), data=GRAPH)
