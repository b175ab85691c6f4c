"""Compiled models: as the code would ask for it; masks left out; caches that grow refused."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of
from distributed_cases import in_ddp, job_case
from live_runs import results
from tiny_models import bert, gpt2, tiny

from gpuscope.advice.changes.compile_model import COMPILED_MODELS
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.edits import applied
from gpuscope.advice.types import ModelSeen, Seen
from gpuscope.errors import InvalidValueError, UnsupportedError


def _build(by_hand=None, device="cuda"):
    def build():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 256),
            torch.nn.GELU(),
            torch.nn.LayerNorm(256),
            torch.nn.Linear(256, 64),
        ).to(device)
        if by_hand:
            model.compile(mode=None if by_hand == "default" else by_hand)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(32, 64, device=device)

        def step():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("compile", "default"),
        ("compile-reduce-overhead", "reduce-overhead"),
        ("compile-max-autotune", "max-autotune"),
    ],
)
def test_the_same_program_as_compiled_by_hand(name, mode):
    changed, by_hand = case_of(_build(), name), case_of(_build(mode))
    assert changed.program.compiled == by_hand.program.compiled == mode
    regions = [(o.name, o.region) for o in changed.program.ops]
    assert regions == [(o.name, o.region) for o in by_hand.program.ops]
    assert any(region for _, region in regions)
    assert changed.run.device_busy_s == pytest.approx(by_hand.run.device_busy_s, rel=1e-3)
    assert changed.run.device_busy_s < case_of(_build()).run.device_busy_s


def test_autocast_reaches_into_what_is_compiled():
    case = case_of(_build(), "bf16-autocast", "compile")
    products = [o for o in case.program.ops if "mm" in o.name.rpartition("::")[2]]
    assert {o.inputs[-1].dtype for o in products} == {"bfloat16"}
    assert all(o.region for o in products)


def _counted(monkeypatch):
    """Dynamo's counters, with no generation of code behind it."""
    original = torch.compile

    def compile_(call, mode=None, dynamic=None):
        return original(call, backend="aot_eager", dynamic=dynamic)

    monkeypatch.setattr(torch, "compile", compile_)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch._dynamo.utils.counters


def test_compiled_code_is_really_run(monkeypatch):
    counters = _counted(monkeypatch)
    build = _build(device="cpu")
    torch.testing.assert_close(results(build, "compile", steps=4), results(build, steps=4))
    assert counters["stats"]["unique_graphs"] == 1  # our hooks make nobody compile anew
    assert not counters["graph_break"]


def test_autocast_around_compiled_code_is_really_run_in_one_graph(monkeypatch):
    counters = _counted(monkeypatch)
    live = Live(plan(["compile"]))
    live_start = live.start

    def start():
        live_start()
        live.around_forward(lambda: torch.autocast("cpu", dtype=torch.bfloat16))

    live.start = start
    step = live.wrap(_build(device="cpu"))()
    for _ in range(3):
        step()
    live.close()
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


@pytest.mark.parametrize("make", [bert, gpt2])
def test_masks_that_mask_nothing_are_left_out(make):
    plain = case_of(tiny(make(), rows=(2, 128)))
    masked = case_of(tiny(make(), rows=(2, 128)), "compile")
    unmasked = case_of(tiny(make(), rows=(2, 128)), "compile-unmasked")
    assert _attention(plain) == _attention(unmasked)
    assert _attention(masked) != _attention(unmasked)
    assert find("compile-unmasked").fits(plain).applies
    assert "compile-unmasked" in find("compile").risk(plain)


def test_a_model_in_ddp_is_seen_and_compiled_like_any():
    build = tiny(in_ddp(gpt2()), rows=(2, 128))
    plain, masked, unmasked = (
        job_case(build, *names) for names in ((), ("compile",), ("compile-unmasked",))
    )
    (model,) = plain.seen.models
    assert (model.class_name, model.wrapper) == ("GPT2LMHeadModel", "DistributedDataParallel")
    assert find("compile-unmasked").fits(plain).applies
    assert _attention(plain) == _attention(unmasked) != _attention(masked)


def _attention(case):
    return [
        len(o.inputs)
        for o in case.program.ops
        if o.name == "gpuscope::attention" and o.phase == "forward"
    ]


def test_a_growing_cache_is_refused_by_graphs_alone():
    from tiny_models import llama
    from transformers import DynamicCache

    def build():
        model = llama()().cuda().eval()
        cache = DynamicCache()
        tokens = torch.zeros((1, 1), dtype=torch.long, device="cuda")

        @torch.no_grad()
        def step():
            model(input_ids=tokens, past_key_values=cache)

        return step

    with pytest.raises(UnsupportedError, match="growing"):
        case_of(build, "compile-reduce-overhead")
    plain = case_of(build)
    assert "grows" in find("compile").risk(plain)
    assert case_of(build, "compile").program.compiled == "default"


def test_where_it_fits():
    change, plain = find("compile"), case_of(_build())
    fit = change.fits(plain)
    assert fit.applies
    assert "%" in fit.why
    assert not change.fits(case_of(_build(), "compile")).applies
    assert not change.fits(case_of(_build(), on="trainium2")).applies
    assert not find("compile-unmasked").fits(plain).applies
    assert "14 to 68 s the first time, 2 to 24 s with" in change.price(plain)
    with pytest.raises(InvalidValueError):
        plan(["compile", "compile-reduce-overhead"])
    assert all(find(n).excludes == COMPILED_MODELS - {n} for n in COMPILED_MODELS)


def test_the_line_goes_after_the_model():
    text = "model = Net()\nmodel = model.cuda()\nopt = SGD(model.parameters())\n"
    seen = Seen(models=(ModelSeen("Net", "__main__", "a.py", 9, ("float32",), {}, site="a.py:1"),))
    line = 'model.compile(mode="reduce-overhead")\n'
    edits = find("compile-reduce-overhead").edits({"a.py": text}, seen)
    assert applied(text, edits) == text.replace("opt =", line + "opt =")
    assert find("compile").edits({}, seen) is None


def test_modules_of_torch_are_wrapped_in_the_source():
    text = "model = Sequential(a, b)\n"
    seen = Seen(
        models=(
            ModelSeen(
                "Sequential", "torch.nn.modules.container", "", 9, ("float32",), {}, site="a.py:1"
            ),
        )
    )
    edits = find("compile").edits({"a.py": text}, seen)
    assert applied(text, edits) == text + "model = torch.compile(model)\n"
    wrapped = replace(seen.models[0], class_name="Net", module="net", wrapper="DDP")
    edits = find("compile").edits({"a.py": text}, Seen(models=(wrapped,)))
    assert applied(text, edits) == text + "model = torch.compile(model)\n"
    edits = find("compile-reduce-overhead").edits({"a.py": text}, seen)
    assert applied(text, edits) == text + 'model = torch.compile(model, mode="reduce-overhead")\n'
