"""Recomputed blocks give the same loss, gradients and statistics, and keep less."""

import copy

import pytest
import torch
from torch import nn

from gpuscope.advice.changes.transforms.recomputation import recompute_blocks, without_cache
from gpuscope.errors import UnsupportedError


class Block(nn.Module):
    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 16)
        self.norm = nn.BatchNorm1d(16) if norm else nn.LayerNorm(16)
        self.drop = nn.Dropout(0.3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.drop(self.norm(self.second(torch.nn.functional.gelu(self.first(x)))))


def _model(norm: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(norm) for _ in range(4)))


def _trained(model: nn.Module) -> tuple[torch.Tensor, list[torch.Tensor], int]:
    """Loss, gradients, and bytes kept for the backward pass of one step."""
    torch.manual_seed(1)
    kept: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(256, 16)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(x).square().mean()
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters()], sum(kept.values())


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("keep_products", [False, True])
@pytest.mark.parametrize(("every", "again"), [(1, 4), (2, 2)])
def test_same_results(norm: bool, keep_products: bool, every: int, again: int) -> None:
    plain = _model(norm)
    changed = copy.deepcopy(plain)
    assert recompute_blocks(changed, every=every, keep_products=keep_products) == again
    loss, gradients, _ = _trained(plain)
    other, others, _ = _trained(changed)
    assert torch.equal(loss, other)
    assert all(torch.equal(a, b) for a, b in zip(gradients, others, strict=True))
    for (name, one), (_, two) in zip(plain.named_buffers(), changed.named_buffers(), strict=True):
        assert torch.equal(one, two), name
    assert sum(block.calls for block in changed) == 4 + again
    assert sum(block.calls for block in plain) == 4


def test_nothing_is_run_again_without_gradients() -> None:
    model = _model()
    recompute_blocks(model)
    with torch.no_grad():
        model(torch.randn(4, 16))
    model.eval()(torch.randn(4, 16))
    assert sum(block.calls for block in model) == 8


def test_batch_norm_is_as_before_when_a_block_fails() -> None:
    model = _model(norm=True)
    recompute_blocks(model)
    loss = model(torch.randn(8, 16)).sum()
    block = model[3]
    block.second = None  # the second run of its forward cannot
    with pytest.raises(TypeError):
        loss.backward()
    assert block.norm.momentum == 0.1
    assert int(block.norm.num_batches_tracked) == 1


def test_without_blocks_it_says_so() -> None:
    with pytest.raises(UnsupportedError, match="no repeated blocks"):
        recompute_blocks(nn.Linear(2, 2))


@pytest.mark.parametrize("held", [False, True], ids=["alone", "held by another, as by DDP"])
def test_transformers_is_told_in_its_own_way(held: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=4,
        n_embd=32,
        n_head=2,
        vocab_size=64,
        n_positions=16,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    torch.manual_seed(0)
    plain = transformers.GPT2LMHeadModel(config).train()
    changed = copy.deepcopy(plain)
    # Its cache is on: recomputed without being told, a layer would add its keys twice.
    assert recompute_blocks(nn.ModuleDict({"it": changed}) if held else changed, every=2) == 2
    told = [m.gradient_checkpointing for m in changed.transformer.h]
    assert told == [True, False, True, False]
    ids = torch.randint(0, 64, (2, 16))
    losses = []
    for model in (plain, changed):
        loss = model(ids, labels=ids).loss
        loss.backward()
        losses.append(loss.detach())
    assert torch.equal(*losses)
    for one, two in zip(plain.parameters(), changed.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_recomputing_model_is_asked_for_no_cache(wrapped: bool) -> None:
    """Held by a wrapper or not; where nothing is recomputed, the call is what it was."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=8, n_head=1, vocab_size=9)
    model = transformers.GPT2LMHeadModel(config).train()
    held = nn.DataParallel(model) if wrapped else model
    call = without_cache(held, lambda *args, **kwargs: kwargs)
    assert call(input_ids=1) == {"input_ids": 1}
    recompute_blocks(held)
    assert call(input_ids=1) == {"input_ids": 1, "use_cache": False}
    model.eval()
    assert call(input_ids=1) == {"input_ids": 1}
