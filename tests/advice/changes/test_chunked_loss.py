"""The loss in chunks, as a change: where it fits, what it saves."""

import torch
from changed_cases import case_of
from torch import nn

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan


def _build(vocabulary=50_000, tokens=4096):
    def build():
        model = nn.Sequential(nn.Embedding(vocabulary, 64), nn.Linear(64, vocabulary)).cuda()
        criterion = nn.CrossEntropyLoss()
        ids = torch.randint(0, vocabulary, (tokens,), device="cuda")

        def step():
            loss = criterion(model(ids), ids)
            loss.backward()
            model.zero_grad()
            return loss.detach()

        return step

    return build


def test_saves_memory_and_no_time_is_lost():
    plain, chunked = case_of(_build()), case_of(_build(), "chunked-loss")
    logits = 4096 * 50_000 * 4
    saved = plain.run.peak_memory_bytes - chunked.run.peak_memory_bytes
    assert 0.6 * logits < saved < logits, "log-probabilities are gone, but for a chunk"
    # A float32 product of K = 64 with a bias is cheap whole (the bias is free there), so that its
    # chunks cost more beside it.
    assert chunked.run.device_busy_s < 1.35 * plain.run.device_busy_s


def test_where_it_fits():
    change = find("chunked-loss")
    fit = change.fits(case_of(_build()))
    assert fit.applies
    assert "50,000" in fit.why
    assert not change.fits(case_of(_build(vocabulary=1000, tokens=128))).applies


def test_the_same_training(monkeypatch):
    """Really run, with chunks that small logits fill."""
    from gpuscope.advice.changes.transforms import chunked_cross_entropy as chunked_loss

    monkeypatch.setattr(chunked_loss, "LEAST_ELEMENTS", 100)
    monkeypatch.setattr(chunked_loss, "CHUNK_ELEMENTS", 1000)

    def build():
        torch.manual_seed(0)
        model = nn.Linear(16, 50)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.randn(64, 16), torch.randint(0, 50, (64,))

        def step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    original = nn.functional.cross_entropy
    losses = []
    for names in ((), ("chunked-loss",)):
        live = Live(plan(names))
        step = live.wrap(build)()
        losses.append(torch.stack([step() for _ in range(5)]))
        live.close()
    torch.testing.assert_close(losses[0], losses[1])
    assert nn.functional.cross_entropy is original
