import pytest
import torch

from cody.train.layers import Hop, TemporalAttention, TimeEncoder


def make(*, embeddings: bool, edge_features: int, dropout: float = 0.0):
    torch.manual_seed(0)
    d, n, m, places = 6, 150, 40, 5
    layer = TemporalAttention(d, edge_features, heads=2, dropout=dropout).double()
    encode = TimeEncoder(d).double()
    for parameter in [*layer.parameters(), *encode.parameters()]:
        torch.nn.init.normal_(parameter, std=0.5)
    below = torch.randn(m, d, dtype=torch.double, requires_grad=True) if embeddings else None
    hop = Hop(
        own=torch.randint(0, m, (n,)),
        neighbour=torch.randint(0, m, (n, places)),
        edge=torch.randn(n, places, edge_features, dtype=torch.double) if edge_features else None,
        elapsed=torch.rand(n, places, dtype=torch.double) * 5,
        exists=(torch.rand(n, places) > 0.5) & (torch.arange(n) % 10 > 0)[:, None],  # some have no event at all
    )
    return layer, encode, below, hop


def outcome(form, layer, encode, below, hop):
    torch.manual_seed(1)
    for parameter in [*layer.parameters(), *encode.parameters(), *([] if below is None else [below])]:
        parameter.grad = None
    answer = form(below, hop, encode)
    (answer * torch.linspace(-1, 2, answer.shape[1])).sum().backward()
    gradients = {name: p.grad for name, p in [*layer.named_parameters(), *encode.named_parameters()]}
    gradients["below"] = None if below is None else below.grad
    return answer.detach(), {name: None if grad is None else grad.clone() for name, grad in gradients.items()}


@pytest.mark.parametrize("embeddings", [True, False])
@pytest.mark.parametrize("edge_features", [0, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_folded_attention_equals_the_textbook_form_in_values_and_gradients(embeddings, edge_features, dropout):
    layer, encode, below, hop = make(embeddings=embeddings, edge_features=edge_features, dropout=dropout)
    answer, gradients = outcome(layer.forward, layer, encode, below, hop)
    expected, expected_gradients = outcome(layer.reference, layer, encode, below, hop)
    torch.testing.assert_close(answer, expected, rtol=1e-10, atol=1e-10)
    for name, gradient in expected_gradients.items():
        if gradients[name] is None:  # the key's bias has no effect: the softmax takes it away
            assert gradient is None or gradient.abs().max() < 1e-10, name
        else:
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-8, atol=1e-8, msg=name)


def test_a_node_without_events_sees_nothing_but_itself():
    layer, encode, below, hop = make(embeddings=True, edge_features=0)
    lonely = ~hop.exists.any(dim=1)
    own = below[hop.own[lonely]]
    alone = layer.merge(torch.zeros(len(own), 12, dtype=torch.double), own)
    torch.testing.assert_close(layer(below, hop, encode)[lonely], alone)


def test_masked_places_do_not_matter():
    layer, encode, below, hop = make(embeddings=True, edge_features=3)
    noise = hop.elapsed + torch.where(hop.exists, 0.0, 1000.0)
    torch.testing.assert_close(layer(below, hop._replace(elapsed=noise), encode), layer(below, hop, encode))


def test_a_duration_has_the_same_encoding_in_any_batch():
    encode = TimeEncoder(172)
    torch.nn.init.normal_(encode.frequency)
    durations = torch.rand(1000) * 1e7
    one_by_one = torch.stack([encode(duration) for duration in durations])
    assert torch.equal(encode(durations), one_by_one)
    assert torch.equal(encode(durations.view(10, 100)).view(1000, -1), one_by_one)


def weighed(hop, weight):
    return hop._replace(weight=weight)


@pytest.mark.parametrize("embeddings", [True, False])
@pytest.mark.parametrize("edge_features", [0, 3])
def test_both_forms_weight_events_equally_in_values_and_gradients(embeddings, edge_features):
    layer, encode, below, hop = make(embeddings=embeddings, edge_features=edge_features)
    torch.manual_seed(2)
    weight = torch.rand(hop.exists.shape, dtype=torch.double)
    weight[::7] = weight[::7].round()
    outcomes = []
    for form in (layer.forward, layer.reference):
        leaf = weight.clone().requires_grad_()
        answer = form(below, weighed(hop, leaf), encode)
        (answer * torch.linspace(-1, 2, answer.shape[1])).sum().backward()
        outcomes.append((answer.detach(), leaf.grad))
    for one, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)
    assert outcomes[0][1].isfinite().all()
    between = hop.exists & (weight > 0) & (weight < 1)
    assert (outcomes[0][1][between] != 0).double().mean() > 0.9


@pytest.mark.parametrize("form", ["forward", "reference"])
def test_an_event_of_weight_1_is_there_and_one_of_weight_0_is_not(form):
    layer, encode, below, hop = make(embeddings=True, edge_features=3)
    attend = getattr(layer, form)
    everything = weighed(hop, torch.ones_like(hop.elapsed))
    torch.testing.assert_close(attend(below, everything, encode), attend(below, hop, encode), rtol=1e-12, atol=1e-12)
    gone = torch.arange(hop.exists.numel()).view(hop.exists.shape) % 3 == 0
    gone[1] = True  # all of a node's events
    without, faded = hop._replace(exists=hop.exists & ~gone), weighed(hop, (~gone).double())
    torch.testing.assert_close(attend(below, faded, encode), attend(below, without, encode), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["forward", "reference"])
def test_two_halves_of_an_event_are_as_much_as_the_whole(form):
    layer, encode, below, hop = make(embeddings=True, edge_features=0)
    for column in (hop.neighbour, hop.elapsed):
        column[:, 1] = column[:, 0]
    weight = torch.tensor([0.5, 0.5, 1, 1, 1], dtype=torch.double).expand_as(hop.elapsed)
    halves = weighed(hop._replace(exists=torch.ones_like(hop.exists)), weight)
    whole = hop._replace(exists=torch.tensor([True, False, True, True, True]).expand_as(hop.exists))
    attend = getattr(layer, form)
    torch.testing.assert_close(attend(below, halves, encode), attend(below, whole, encode), rtol=1e-10, atol=1e-10)


def test_events_that_fade_together_are_not_seen_as_long_as_one_bit_is_left_of_them():
    layer, encode, below, hop = make(embeddings=True, edge_features=0)
    gone = layer(below, hop._replace(exists=torch.zeros_like(hop.exists)), encode)
    nearly = layer(below, weighed(hop, torch.full_like(hop.elapsed, 1e-6)), encode)
    torch.testing.assert_close(nearly, gone, rtol=1e-3, atol=1e-3)
