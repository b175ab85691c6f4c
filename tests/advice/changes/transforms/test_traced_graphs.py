"""What changes put into a model that the user compiles adds no graph: Dynamo traces through it.

Graphs are counted by a backend that runs them as they are, with and without a change, on whatever
torch is installed; a second count tells whether later calls compile anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import plan
from gpuscope.runtime import grouped_experts as grouped_loop
from gpuscope.runtime.grouped_experts import add_experts

WIDTH = 16


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Counting:
    """A backend of `torch.compile` that counts what it is given, and runs it."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, _inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


def counted(
    make: Callable[[], tuple[nn.Module, tuple[Any, ...]]], changes: tuple[str, ...] = ()
) -> tuple[int, int]:
    """(graphs of the first two calls, graphs of three later ones) of a compiled model."""
    torch._dynamo.reset()
    backend = Counting()
    live = Live(plan(changes))

    def build() -> Callable[[], None]:
        torch.manual_seed(0)
        model, inputs = make()
        model.compile(backend=backend)

        def step() -> None:
            with torch.set_grad_enabled(model.training):
                out = model(*inputs)
            if model.training:
                getattr(out, "logits", out).sum().backward()
                model.zero_grad()

        return step

    try:
        step = live.wrap(build)()
        step(), step()
        first = backend.graphs
        for _ in range(3):
            step()
    finally:
        live.close()
    return first, backend.graphs - first


# -- experts ---------------------------------------------------------------------------------------


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(WIDTH, 32), nn.Linear(WIDTH, 32)
        self.w2 = nn.Linear(32, WIDTH)
        self.act, self.scale = F.silu, 1.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(self.act(self.w1(x)) * self.scale * self.w3(x))  # type: ignore[no-any-return]


def plain_expert() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))


class Experts(nn.Module):
    def __init__(self, expert: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList([expert() for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(torch.softmax(self.router(x), -1), 2, dim=-1)
        out = torch.zeros_like(x)
        add_experts(out, self.experts, x, chosen, weights)
        return out


class Two(nn.Module):
    def __init__(self, expert: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = Experts(expert), Experts(expert)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(x + self.first(x))  # type: ignore[no-any-return]


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in groups are taken to run here, by one expert's weights for all rows."""

    def device_groups(kind: str, index: int | None) -> bool:
        return kind == "cpu" and index is None

    device_groups._dynamo_marked_constant = True  # type: ignore[attr-defined]
    monkeypatch.setattr(grouped_loop, "_device_groups", device_groups)
    monkeypatch.setattr(torch, "_grouped_mm", lambda x, w, offs: x @ w[0], raising=False)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("expert", [plain_expert, Gated])
@pytest.mark.parametrize("training", [True, False])
def test_layers_of_experts_are_one_graph(expert: Callable[[], nn.Module], training: bool) -> None:
    def make() -> tuple[nn.Module, tuple[Any, ...]]:
        return Two(expert).bfloat16().train(training), (torch.randn(8, WIDTH).bfloat16(),)

    assert counted(make) == (1, 0)


@pytest.mark.usefixtures("groups")
def test_an_expert_changed_later_is_compiled_as_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    looped = []
    loop = grouped_loop._loop
    layer = Experts(plain_expert).bfloat16().eval()
    x = torch.randn(8, WIDTH).bfloat16()
    compiled = torch.compile(layer, backend=Counting())

    def noting(*given: Any) -> None:
        looped.append(1)
        loop(*given)

    monkeypatch.setattr(grouped_loop, "_loop", noting)
    with torch.no_grad():
        compiled(x)
        assert not looped
        layer.experts[2][1] = nn.ReLU()
        compiled(x)
    assert looped


# -- changes ---------------------------------------------------------------------------------------


class ByHand(nn.Module):
    """Attention written out, linear layers of one input, a norm written out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = WrittenRMSNorm()
        self.q_proj, self.k_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.v_proj, self.o_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = 0.25

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        q, k, v = self.q_proj(h), self.k_proj(h), self.v_proj(h)
        att = (q @ k.transpose(-2, -1)) * self.scale
        att = F.softmax(att, dim=-1)
        return x + self.o_proj(att @ v)  # type: ignore[no-any-return]


class WrittenRMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(WIDTH)), 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([ByHand() for _ in range(2)])
        self.head = nn.Linear(WIDTH, 4097)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x.to(torch.float32).to(x.device))  # type: ignore[no-any-return]


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, 40)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(x), target)


class Multihead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x)[0]  # type: ignore[no-any-return]


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)  # type: ignore[no-any-return]


def _stack(training: bool) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    return lambda: (Stack().train(training), (torch.randn(2, 64, WIDTH),))


TRAINED, CALLED = _stack(True), _stack(False)

CASES = {
    "sdpa-rewrite": TRAINED,
    "fused-norm": TRAINED,
    "pad-vocabulary": TRAINED,
    "checkpoint": TRAINED,
    "checkpoint-selective": TRAINED,
    "activation-offload": TRAINED,
    "async-copies": TRAINED,
    "pin-memory": TRAINED,
    "free-cache": TRAINED,
    "tf32": TRAINED,
    "zero-grad-none": TRAINED,
    "graph-breaks": TRAINED,
    "merged-projections": CALLED,
    "int8-weights": CALLED,
    "dynamic-int8": CALLED,
    "bf16-weights": lambda: (Multihead().eval(), (torch.randn(2, 8, WIDTH),)),
    "inference-mode": CALLED,
    "sdpa": lambda: (Multihead(), (torch.randn(2, 8, WIDTH),)),
    "channels-last": lambda: (Images(), (torch.randn(2, 3, 8, 8),)),
    "chunked-loss": lambda: (WithLoss(), (torch.randn(8, WIDTH), torch.randint(0, 40, (8,)))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_graph_is_added(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuscope.advice.changes.transforms import chunked_cross_entropy as chunked_loss

    monkeypatch.setattr(chunked_loss, "LEAST_ELEMENTS", 1)
    if name == "fused-norm" and torch.__version__ < "2.9":
        pytest.skip("this torch has no kernel for it")
    before, after = counted(CASES[name]), counted(CASES[name], (name,))
    assert (before, after) == ((1, 0), (1, 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checkpoint", "no-padding-mask", "fused-norm"])
def test_a_model_of_transformers_stays_one_graph(name: str) -> None:
    if name == "fused-norm" and torch.__version__ < "2.9":
        pytest.skip("this torch has no kernel for it")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=101,
    )

    def make() -> tuple[nn.Module, tuple[Any, ...]]:
        return transformers.LlamaForCausalLM(config).train(), (torch.ones(2, 8).long(),)

    assert counted(make, (name,)) == counted(make) == (1, 0)
