"""Weights in 16 bits: all but batch norms and rotary frequencies; inputs and caches follow."""

import torch
from changed_cases import case_of
from tiny_models import llama

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan


def _vision(training=True, device="cuda"):
    def build():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 36, 10),
        ).to(device)
        x = torch.randn(4, 3, 8, 8, device=device)
        if not training:
            model.eval()

            @torch.no_grad()
            def infer():
                return model(x)

            return infer
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


def test_products_and_gradients_are_in_bfloat16_batch_norm_is_not():
    case = case_of(_vision(), "bf16-weights")
    products = [o for o in case.program.ops if o.name in ("aten::addmm", "aten::convolution")]
    assert products
    assert {o.inputs[-1].dtype for o in products} == {"bfloat16"}
    parameters = {t.dtype for o in case.program.ops if o.phase == "optimizer" for t in o.inputs}
    assert parameters == {"bfloat16", "float32"}
    assert case.run.peak_memory_bytes < case_of(_vision()).run.peak_memory_bytes


def test_a_real_run_keeps_its_parameters_and_nearly_its_results():
    live = Live(plan(["bf16-weights"]))
    changed = live.wrap(_vision(device="cpu"))()
    model, optimizer = live.models[0], live.optimizers[0]
    held = {id(p) for g in optimizer.param_groups for p in g["params"]}
    assert held == {id(p) for p in model.parameters()}
    assert model[0].weight.dtype is torch.bfloat16
    assert model[1].running_mean.dtype is torch.float32
    losses = [changed().item() for _ in range(3)]
    live.close()
    plain = _vision(device="cpu")()
    assert torch.allclose(
        torch.tensor(losses), torch.tensor([plain().item() for _ in range(3)]), rtol=0.05
    )
    assert losses[0] > losses[-1]


def test_rotary_frequencies_and_a_cache_made_before():
    from transformers import DynamicCache

    def build():
        torch.manual_seed(0)
        model = llama()().eval()
        tokens = torch.randint(0, 90, (1, 8))
        cache = DynamicCache()
        with torch.no_grad():
            model(input_ids=tokens, past_key_values=cache)

        @torch.no_grad()
        def step():
            return model(input_ids=tokens[:, :1], past_key_values=cache).logits

        return step

    live = Live(plan(["bf16-weights"]))
    with live:
        step = live.wrap(build)()
        assert step().dtype is torch.bfloat16
        rotary = [b for n, b in live.models[0].named_buffers() if "inv_freq" in n]
        assert rotary
        assert all(buffer.dtype is torch.float32 for buffer in rotary)


def test_where_it_fits():
    change, other = find("bf16-weights"), find("fp16-weights")
    training, inference = case_of(_vision()), case_of(_vision(training=False))
    assert change.fits(training).applies
    assert "1/256" in change.risk(training)
    assert change.risk(inference) is None
    assert not other.fits(training).applies
    assert other.fits(inference).applies
    assert "65,504" in other.risk(inference)
    assert not change.fits(case_of(_vision(), on="v100")).applies
    assert {"bf16-autocast", "fp16-weights"} <= change.excludes
