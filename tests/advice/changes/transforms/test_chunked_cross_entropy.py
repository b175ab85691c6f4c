"""Cross-entropy in chunks: the same loss and gradient, fewer bytes."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from gpuscope.advice.changes.transforms import chunked_cross_entropy as chunked_loss
from gpuscope.advice.changes.transforms.chunked_cross_entropy import (
    causal_loss,
    chunked_cross_entropy,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Chunks that small logits fill several of."""
    monkeypatch.setattr(chunked_loss, "LEAST_ELEMENTS", 100)
    monkeypatch.setattr(chunked_loss, "CHUNK_ELEMENTS", 7 * 33)


def _both(logits, target, **options):
    results = []
    for function in (F.cross_entropy, chunked_cross_entropy(F.cross_entropy)):
        x = logits.clone().requires_grad_()
        loss = function(x, target, **options)
        (3 * loss).backward()
        results.append((loss.detach(), x.grad))
    return results


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("ignored", [0, 5, 40])
def test_equal_to_pytorch(reduction, ignored):
    torch.manual_seed(0)
    logits, target = 4 * torch.randn(40, 33), torch.randint(0, 33, (40,))
    target[:ignored] = -100
    (loss, grad), (chunked, chunked_grad) = _both(logits, target, reduction=reduction)
    torch.testing.assert_close(chunked, loss, equal_nan=True)
    torch.testing.assert_close(chunked_grad, grad, equal_nan=True)


def test_another_index_is_ignored():
    torch.manual_seed(0)
    logits, target = torch.randn(40, 33), torch.randint(0, 33, (40,))
    (loss, grad), (chunked, chunked_grad) = _both(logits, target, ignore_index=7)
    torch.testing.assert_close(chunked, loss)
    torch.testing.assert_close(chunked_grad, grad)


def test_gradients_keep_the_dtype_of_the_logits():
    torch.manual_seed(0)
    logits, target = torch.randn(40, 33).bfloat16(), torch.randint(0, 33, (40,))
    (loss, _), (chunked, grad) = _both(logits, target)
    assert grad.dtype == torch.bfloat16
    torch.testing.assert_close(chunked.float(), loss.float(), rtol=2e-2, atol=0)


@pytest.mark.parametrize(
    "options", [{"label_smoothing": 0.1}, {"weight": torch.ones(33)}, {"reduction": "none"}]
)
def test_what_it_does_not_do_is_left_to_pytorch(options):
    torch.manual_seed(0)
    logits = torch.randn(40, 33, requires_grad=True)
    target = torch.randint(0, 33, (40,))
    chunked = chunked_cross_entropy(F.cross_entropy)(logits, target, **options)
    assert torch.equal(chunked, F.cross_entropy(logits, target, **options))
    assert "_Chunked" not in type(chunked.grad_fn).__name__


def test_differentiated_once():
    logits = torch.randn(40, 33, requires_grad=True)
    loss = chunked_cross_entropy(F.cross_entropy)(logits, torch.zeros(40, dtype=torch.int64))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once only"):
        loss.backward()


def test_the_loss_of_causal_models():
    from transformers.loss.loss_utils import ForCausalLMLoss

    torch.manual_seed(0)
    logits, labels = torch.randn(2, 20, 33), torch.randint(0, 33, (2, 20))
    for more in ({}, {"num_items_in_batch": 38}):
        ours = causal_loss(logits, labels, 33, **more)
        torch.testing.assert_close(ours, ForCausalLMLoss(logits, labels, 33, **more))
