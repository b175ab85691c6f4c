"""Losses, gradients, outputs and updates are those that hand calculation gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.trial.result_hooks import Watching
from gpuscope.advice.types import ChangeCase, Fit


class _Subject:
    def __init__(self, build: Callable[[], Any], live: Live) -> None:
        self.live = live
        self._step = live.wrap(build)()
        self.result: object = None

    def advance(self, steps: int) -> float:
        for _ in range(steps):
            self.result = self._step()
        return 0.0


def observe(build: Callable[[], Any], steps: int = 2, perturb: float = 0.0) -> dict[str, Any]:
    watching = Watching(perturb)
    live = Live([watching])
    try:
        return watching.observe(_Subject(build, live), steps, 0)
    finally:
        live.close()


def line(dropout: float = 0.0) -> Callable[[], Any]:
    """y = 3 w, loss = y: the gradient is 3, the rate 0.1, w begins at 2."""

    def build() -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Dropout(dropout))
        torch.nn.init.constant_(model[0].weight, 2.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            model(torch.tensor([[3.0]])).sum().backward()
            optimizer.step()

        return step

    return build


def test_a_line() -> None:
    found = observe(line())
    quantities = found["quantities"]
    assert [x for (x,) in quantities["loss"]] == pytest.approx([6.0, 5.1])
    assert [x for (x,) in quantities["gradient norm"]] == pytest.approx([3.0, 3.0])
    assert quantities["update"][0][0] == pytest.approx(0.6)
    assert "output" not in quantities
    assert not found["dropout"]
    assert found["precision"] == "float32"


def test_dropout_is_off_and_told() -> None:
    found = observe(line(dropout=0.5))
    assert found["dropout"]
    assert found["quantities"]["loss"][0][0] == pytest.approx(6.0)


def test_functional_dropout_and_attention() -> None:
    def build() -> Any:
        import torch.nn.functional as F  # noqa: N812 - its usual name

        x = torch.ones(1, 1, 4, 4)

        def step() -> Any:
            return F.dropout(F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), 0.5).sum()

        return step

    found = observe(build)
    assert found["dropout"]
    assert found["quantities"]["result"] == [(16.0,), (16.0,)]


def test_inference_gives_outputs() -> None:
    def build() -> Any:
        model = torch.nn.Linear(4, 3).eval()

        def step() -> None:
            with torch.no_grad():
                model(torch.ones(2, 4))

        return step

    quantities = observe(build)["quantities"]
    assert set(quantities) == {"output"}
    assert len(quantities["output"][0]) == 6


def test_noise_on_weights_moves_the_loss_a_little() -> None:
    plain = observe(line())["quantities"]["loss"][0][0]
    moved = observe(line(), perturb=1e-3)["quantities"]["loss"][0][0]
    assert moved != plain
    assert moved == pytest.approx(plain, rel=1e-2)


def test_autocast_is_seen() -> None:
    def build() -> Any:
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step() -> None:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(torch.ones(2, 4)).sum()
            loss.backward()
            optimizer.step()

        return step

    assert observe(build)["precision"] == "bfloat16"


def test_everything_is_put_back() -> None:
    dropout = torch.nn.functional.dropout
    backward = torch.Tensor.backward
    observe(line())
    assert torch.nn.functional.dropout is dropout
    assert torch.Tensor.backward is backward


def test_tokens_that_a_model_is_fed_are_kept() -> None:
    def build(first: int = 1) -> Any:
        model = torch.nn.Embedding(10, 4).eval()
        tokens = [torch.tensor([first, 2])]

        def step() -> None:
            with torch.no_grad():
                tokens[0] = (tokens[0] + model(tokens[0]).argmax(-1) * 0 + 1) % 10

        return step

    fed = observe(build, steps=3)["quantities"]["fed"]
    assert len(set(fed)) == 3
    assert fed == observe(build, steps=3)["quantities"]["fed"]
    assert fed[0] != observe(lambda: build(5), steps=3)["quantities"]["fed"][0]


class _Replays(Change):
    """Calls after the first run no forward hook, like a graph that is replayed."""

    name = "replays"
    group = "compilation"

    def fits(self, case: ChangeCase) -> Fit:
        raise NotImplementedError

    def install(self, live: Live) -> None:
        def wrap(module: Any, call: Callable[..., Any]) -> Callable[..., Any]:
            kept: list[Any] = []

            def called(x: Any) -> Any:
                if not kept:
                    kept.append(call(x))
                return kept[0].clone()

            return called

        live.on_call(wrap)


@pytest.mark.parametrize("in_the_code", [False, True], ids=["by a trial", "by the code itself"])
def test_outputs_of_a_replayed_call_are_seen(in_the_code: bool) -> None:
    def build() -> Any:
        model = torch.nn.Linear(4, 3).eval()

        def step() -> None:
            with torch.no_grad():
                model(torch.ones(2, 4))

        return step

    watching = Watching()
    own = Live([_Replays()])  # as `gs.apply` has it
    live = Live([watching] if in_the_code else [_Replays(), watching])
    try:
        subject = _Subject(own.wrap(build) if in_the_code else build, live)
        found = watching.observe(subject, 3, 0)["quantities"]["output"]
    finally:
        own.close()  # it began last
        live.close()
    assert found[0] is not None
    assert found == [found[0]] * 3


def test_each_draw_of_noise_is_another() -> None:
    def loss(draw: int) -> float:
        watching = Watching(1e-2, draw)
        live = Live([watching])
        try:
            found = watching.observe(_Subject(line(), live), 1, 0)["quantities"]["loss"]
        finally:
            live.close()
        return float(found[0][0])

    assert loss(0) == loss(0)
    assert loss(0) != loss(1)


def test_steps_that_a_scaler_skips_are_taken_again() -> None:
    """The gradient, 3, times a scale of 2^127 is infinite; at 2^126 it is 2.55e38, and fits."""

    def build(scale: float) -> Any:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(model.weight, 2.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)

        def step() -> None:
            optimizer.zero_grad()
            scaler.scale(model(torch.tensor([[3.0]])).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()

        return step

    plain = observe(lambda: build(1.0))["quantities"]
    skipping = observe(lambda: build(2.0**127))["quantities"]
    assert [x for (x,) in skipping["gradient norm"]] == pytest.approx([3.0, 3.0])
    assert skipping["gradient norm"] == plain["gradient norm"]
    assert skipping["update"] == plain["update"]
    step = torch.amp.GradScaler.step
    observe(line())
    assert torch.amp.GradScaler.step is step
