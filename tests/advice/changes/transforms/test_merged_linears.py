"""Linear layers merged in place: the same outputs, weights stored once, another input too."""

import torch
from torch import nn

from gpuscope.advice.changes.transforms.merged_linears import merge_linears


class _Attention(nn.Module):
    def __init__(self, bias=False):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(8, n, bias) for n in (8, 4, 4))


@torch.no_grad()
def test_each_layer_gives_its_part():
    for bias in (False, True):
        torch.manual_seed(0)
        model, x, other = _Attention(bias), torch.randn(3, 8), torch.randn(2, 8)
        layers = (model.q_proj, model.k_proj, model.v_proj)
        expected = [layer(x) for layer in layers]
        elsewhere = layers[1](other)
        assert merge_linears(model) == 2
        got = [layer(x) for layer in layers]
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(layers[1](other), elsewhere)
        storages = {layer.weight.untyped_storage().data_ptr() for layer in layers}
        assert len(storages) == 1
        assert set(model.state_dict()) >= {"q_proj.weight", "k_proj.weight", "v_proj.weight"}


def test_layers_that_are_not_alike_stay():
    model = _Attention()
    model.k_proj = nn.Linear(6, 4)
    assert merge_linears(model) == 0
    tied = _Attention()
    tied.v_proj.weight = tied.k_proj.weight
    assert merge_linears(tied) == 0
    assert merge_linears(nn.Linear(3, 3)) == 0
