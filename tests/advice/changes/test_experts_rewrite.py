"""Loops over experts in live code: the same numbers and gradients, grouped; near-misses stay."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
import torch
from changed_cases import case_of_file, loaded

import gpuscope as gs
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.expert_loops import functions_with_experts
from gpuscope.advice.source.patches import patch_of
from gpuscope.errors import UnsupportedError
from gpuscope.runtime import grouped_experts as grouped_loop

MODEL = """\
import torch
from torch import nn
from torch.nn import functional as F


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = nn.Linear({width}, 64, bias=False), nn.Linear({width}, 64, bias=False)
        self.w2 = nn.Linear(64, {width}, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 4
        self.router = nn.Linear({width}, 4, bias=False)
        self.experts = nn.ModuleList([{expert} for _ in range(4)])

    def forward(self, x):
        x = x.reshape(-1, {width})
        probs = F.softmax(self.router(x), dim=-1)
        weights, chosen = torch.topk(probs, {k}, dim=-1)
{before}
        out = torch.zeros_like(x)
{loop}
        return out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), Layer()

    def forward(self, x):
        return self.second(x + self.first(x))


def build():
    torch.manual_seed(0)
    model = Model().to("{device}")
    x = torch.randn({tokens}, {width}, device="{device}", requires_grad=True)

    def step():
        out = model(x)
        out.square().sum().backward()
        return out, [x.grad, *(p.grad for p in model.parameters())]

    return step
"""

MLP = "nn.Sequential(nn.Linear({width}, 64), nn.GELU(), nn.Linear(64, {width}))"

# name -> (k, lines before, lines of the loop)
WRITTEN = {
    "where": (
        2,
        "",
        """\
for number, expert in enumerate(self.experts):
    token, place = torch.where(chosen == number)
    out.index_add_(0, token, expert(x[token]) * weights[token, place, None])""",
    ),
    "skip": (
        2,
        "",
        """\
for e in range(len(self.experts)):
    token, place = (chosen == e).nonzero(as_tuple=True)
    if token.numel() == 0:
        continue
    made = self.experts[e](x[token])
    out[token] += weights[token, place].unsqueeze(-1) * made""",
    ),
    "masks": (
        1,
        "weights, chosen = weights[:, 0], chosen[:, 0]",
        """\
for e, expert in enumerate(self.experts):
    mask = chosen == e
    if mask.any():
        out[mask] = expert(x[mask]) * weights[mask].unsqueeze(1)""",
    ),
    "argmax": (
        1,
        "best = probs.argmax(dim=-1)",
        """\
for e, expert in zip(range(self.n), self.experts):
    idx = torch.where(best == e)[0]
    out[idx] += expert(x[idx]) * probs[idx, e, None]""",
    ),
    "columns": (
        2,
        "",
        """\
for k in range(2):
    for e, expert in enumerate(self.experts):
        mask = chosen[:, k] == e
        out[mask] += weights[mask, k, None] * expert(x[mask])""",
    ),
    "one-hot": (
        2,
        "mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)",
        """\
for e in range(self.n):
    layer = self.experts[e]
    idx, top_x = torch.where(mask[e])
    state = x[None, top_x].reshape(-1, x.shape[-1])
    made = layer(state) * weights[top_x, idx, None]
    out.index_add_(0, top_x, made.to(x.dtype))""",
    ),
    "no weights": (
        2,
        "",
        """\
for e, expert in enumerate(self.experts):
    t = torch.where(chosen == e)[0]
    out.index_add_(0, t, expert(x[t]))""",
    ),
    "matrix": (
        1,
        "weights, chosen = weights.squeeze(-1), chosen.squeeze(-1)",
        """\
for e, expert in enumerate(self.experts):
    t = (chosen == e).nonzero().squeeze(-1)
    rows = x.index_select(0, t)
    out[t] = out[t] + expert(rows) * weights[t][:, None]""",
    ),
    "some only": (
        2,
        "",
        """\
for e in range(3):
    token, place = torch.where(chosen == e)
    out.index_add_(0, token, self.experts[e](x[token]) * weights[token, place, None])""",
    ),
}

WHERE = WRITTEN["where"][2]

NEAR = {
    "uses the result": WHERE + "\n    self.seen = token",
    "reads it later": WHERE + "\nout = out + token.sum()",
    "scaled rows": WHERE.replace("expert(x[token])", "expert(x[token] * 2)"),
    "other places": WHERE.replace("out.index_add_(0, token", "out.index_add_(0, place"),
    "another mask": WHERE.replace("chosen == number", "chosen >= number"),
    "in place of rows": WHERE.replace("expert(x[token])", "expert(out[token])"),
    "overwrites": WHERE.replace(
        "out.index_add_(0, token, expert(x[token]) * weights[token, place, None])",
        "out[token] = expert(x[token]) * weights[token, place, None]",
    ),
    "stops": WHERE + "\n    if number == 2:\n        break",
    "else": WHERE + "\nelse:\n    out = out * 2",
    "added to": WHERE.replace("weights[token, place, None])", "weights[token, place, None] + 1)"),
}

_numbers = itertools.count()

CHANGE = plan(["experts-rewrite"])


def _written(
    folder: Path,
    k: int,
    before: str,
    loop: str,
    expert: str = MLP,
    device: str = "cpu",
    width: int = 32,
    tokens: int = 48,
) -> Path:
    indent = " " * 8
    lines = "\n".join(indent + line for line in loop.splitlines())
    text = MODEL.format(
        k=k,
        before=indent + before if before else "",
        loop=lines,
        device=device,
        width=width,
        expert=expert.format(width=width),
        tokens=tokens,
    )
    path = folder / f"experts{next(_numbers)}.py"
    path.write_text(text)
    return path


@pytest.fixture
def no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be grouped is not left to the loop."""

    def never(*args: object) -> None:
        raise AssertionError("the loop ran")

    monkeypatch.setattr(grouped_loop, "_loop", never)
    monkeypatch.setattr(grouped_loop, "_masked_loop", never)


@pytest.mark.usefixtures("no_loop")
@pytest.mark.parametrize(
    ("expert", "grouped"), [(MLP, True), ("Gated()", False)], ids=["grouped", "gated"]
)
@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_numbers_and_gradients(
    name: str, expert: str, grouped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if grouped:  # PyTorch's own grouped product on a processor, in full precision
        monkeypatch.setattr(grouped_loop, "_can_group", lambda *_: True)
    build = loaded(_written(tmp_path, *WRITTEN[name], expert=expert))
    out, gradients = build()()
    live = Live(CHANGE)
    new_out, new_gradients = live.wrap(build)()()
    live.close()
    torch.testing.assert_close(new_out, out)
    for new, old in zip(new_gradients, gradients, strict=True):
        assert (new is None) == (old is None)
        if new is not None:
            torch.testing.assert_close(new, old, rtol=1e-4, atol=1e-4)
    again, _ = build()()
    assert torch.equal(again, out)  # the function is put back


@pytest.mark.parametrize("name", NEAR)
def test_near_misses_stay(name: str, tmp_path: Path) -> None:
    path = _written(tmp_path, 2, "", NEAR[name])
    assert functions_with_experts(path.read_text()) == []
    with pytest.raises(UnsupportedError):
        Live(CHANGE).wrap(loaded(path))()


def test_a_capture_groups_and_is_faster(tmp_path: Path) -> None:
    path = _written(tmp_path, *WRITTEN["where"], device="cuda", width=512, tokens=4096)
    names = plan(["experts-rewrite", "bf16-autocast"])
    steps = {}
    for changes in ([c for c in names if c.name == "bf16-autocast"], names):
        live = Live(tuple(changes))
        program = gs.capture(live.wrap(loaded(path)))
        live.close()
        counts = Counter(op.name for op in program.ops)
        steps[len(changes)] = gs.predict(program, on="h200").step_time_s
    # Two linear layers in each of two layers: forward, and two gradients each.
    assert counts["aten::_grouped_mm"] == 12
    assert counts["aten::nonzero"] == 0
    assert not any(op.sync for op in program.ops)
    assert steps[2] < 0.8 * steps[1]
    assert find("experts-rewrite").fits(case_of_file(path)).applies


def test_the_patch_is_what_was_priced(tmp_path: Path) -> None:
    path = _written(tmp_path, *WRITTEN["where"], device="cuda")
    case = case_of_file(path)
    assert case.seen is not None
    live = Live(CHANGE)
    live_names = [op.name for op in gs.capture(live.wrap(loaded(path))).ops]
    live.close()
    patch = patch_of(["experts-rewrite"], case.seen)
    assert patch.by_apply == ()
    ((_, text),) = patch.files.items()
    assert "add_experts(out, self.experts, x, chosen, weights)" in text
    patched = tmp_path / "patched.py"
    patched.write_text(text)
    assert [op.name for op in gs.capture(loaded(patched)).ops] == live_names


def test_odd_sizes_are_not_grouped(tmp_path: Path) -> None:
    """Rows of 24 bytes: groups are multiplied one after the other."""
    path = _written(tmp_path, *WRITTEN["where"], device="cuda", width=12)
    live = Live(plan(["experts-rewrite", "bf16-autocast"]))
    names = Counter(op.name for op in gs.capture(live.wrap(loaded(path))).ops)
    live.close()
    assert names["aten::_grouped_mm"] == 0
