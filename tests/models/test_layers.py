import pytest
import torch

from cody.models.layers import Hop, TemporalAttention, TimeEncoder


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
    expected, expected_gradients = outcome(layer.plain, layer, encode, below, hop)
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
