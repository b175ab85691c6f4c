"""Inference mode: less work for the host and memory freed at once; never in training."""

from dataclasses import replace

import torch
from changed_cases import case_of
from live_runs import results
from torch import nn

from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied


def _build(device="cuda", training=False, guard=None):
    def build():
        model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).to(device)
        x = torch.ones(512, 512, device=device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if training else None

        def step():
            if guard is not None:
                with guard():
                    return model(x)
            out = model(x)
            if optimizer is not None:
                out.sum().backward()
                optimizer.step()
            return out

        return step

    return build


def test_activations_are_not_kept():
    plain, changed = case_of(_build()), case_of(_build(), "inference-mode")
    change = find("inference-mode")
    assert change.fits(plain).applies
    assert plain.program.ops
    assert not any(op.autograd for op in changed.program.ops)
    assert changed.run.peak_memory_bytes < plain.run.peak_memory_bytes
    assert changed.run.host_busy_s < plain.run.host_busy_s


def test_refused_in_training_and_where_nothing_is_recorded():
    change = find("inference-mode")
    assert not change.fits(case_of(_build(training=True))).applies
    assert not change.fits(case_of(_build(guard=torch.no_grad))).applies


def test_it_really_runs():
    torch.testing.assert_close(results(_build("cpu"), "inference-mode"), results(_build("cpu")))


def test_a_decorator_on_the_step():
    text = (
        "import torch\n\ndef build():\n    m = make()\n\n"
        "    def step():\n        return m(x)\n\n    return step\n"
    )
    seen = replace(case_of(_build()).seen, file="a.py", function="build")
    edits = find("inference-mode").edits({"a.py": text}, seen)
    assert "    @torch.inference_mode()\n    def step():" in applied(text, edits)
    assert find("inference-mode").edits({"a.py": "x = 1\n"}, seen) is None
