"""What is compiled is marked call by call, and takes the path that a compiler would trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuscope.program.fusion import FUSED, fuse
from gpuscope.program.types import RETURNED, Program

torch = pytest.importorskip("torch")

Step = Callable[[], object]


def captured(build: Callable[[], Step]) -> Program:
    from gpuscope.program.capture import capture

    return capture(build)


def test_a_compiled_module_marks_forward_and_backward_and_nothing_else() -> None:
    def build() -> Step:
        model = torch.compile(torch.nn.Linear(64, 64).cuda())
        x = torch.randn(8, 64, device="cuda")

        def step() -> None:
            model(x).square().sum().backward()

        return step

    program = captured(build)
    assert program.compiled == "default"
    by_region = {
        region: {op.name for op in program.ops if op.region == region and not op.view}
        for region in (0, 1)
    }
    assert "aten::addmm" in by_region[1]
    assert "aten::mm" in by_region[1]
    assert "aten::pow" in by_region[0]  # the loss is outside
    assert not any(op.region and op.phase == "optimizer" for op in program.ops)


@pytest.mark.parametrize("how", ["function", "method"])
def test_every_call_of_a_compiled_block_is_a_graph_of_its_own(how: str) -> None:
    def build() -> Step:
        blocks = [torch.nn.Linear(64, 64).cuda() for _ in range(3)]
        if how == "method":
            for block in blocks:
                block.compile()
            calls: list[Any] = list(blocks)
        else:
            calls = [torch.compile(block) for block in blocks]
        x = torch.randn(8, 64, device="cuda")

        def step() -> None:
            y = x
            for call in calls:
                y = torch.relu(call(y))
            y.sum().backward()

        return step

    program = captured(build)
    regions = {op.region for op in program.ops if op.name == "aten::addmm"}
    assert regions == {1, 2, 3}
    order = [op.region for op in program.ops if op.name == "aten::mm" and op.phase == "backward"]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "default"),
        ({"mode": "max-autotune"}, "max-autotune"),
        ({"options": {"triton.cudagraphs": True}}, "reduce-overhead"),
        ({"options": {"max_autotune": True}}, "max-autotune-no-cudagraphs"),
        ({"backend": "cudagraphs"}, "cudagraphs"),
        ({"backend": "eager"}, ""),
        ({"disable": True}, ""),
        ({"fullgraph": True, "dynamic": False}, "default"),
    ],
)
def test_the_mode_is_kept(options: dict[str, Any], mode: str) -> None:
    def build() -> Step:
        run = torch.compile(lambda x: torch.relu(x) * 2, **options)
        x = torch.randn(8, 64, device="cuda")
        return lambda: run(x)

    program = captured(build)
    assert program.compiled == mode
    assert any(op.region for op in program.ops) == (mode not in ("", "cudagraphs"))


def test_code_hears_that_it_is_compiled_and_only_there() -> None:
    heard: list[bool] = []

    def build() -> Step:
        def ask(x: Any) -> Any:
            heard.append(torch.compiler.is_compiling())
            return x + 1

        run = torch.compile(ask)
        x = torch.randn(8, device="cuda")
        return lambda: (ask(x), run(x))

    captured(build)
    assert heard == [False, True, False, True]
    assert not torch.compiler.is_compiling()


def test_a_value_that_the_host_reads_breaks_the_graph_and_is_listed() -> None:
    def build() -> Step:
        layer = torch.nn.Linear(64, 64).cuda()

        def run(x: Any) -> Any:
            y = layer(x)
            if y.sum() > 0:
                y = y + 1
            return layer(y)

        compiled = torch.compile(run)
        x = torch.randn(8, 64, device="cuda")
        return lambda: compiled(x).sum().backward()

    program = captured(build)
    (found,) = program.graph_breaks
    assert found.site.startswith("test_capture_compiled.py:")
    assert found.count == 1
    assert {op.region for op in program.ops if op.name == "aten::addmm"} == {1, 2}
    assert any(found.site in sentence for sentence in fuse(program).assumptions)


def test_a_mask_that_is_expanded_along_the_keys_rules_fused_attention_out() -> None:
    def build(expanded: bool) -> Callable[[], Step]:
        def make() -> Step:
            q = torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16)
            mask = torch.ones(2, 1, 128, 1 if expanded else 128, dtype=torch.bool, device="cuda")
            mask = mask.expand(2, 1, 128, 128)
            attend = torch.nn.functional.scaled_dot_product_attention
            return lambda: attend(q, q, q, attn_mask=mask)

        return make

    def fused_attention(program: Program) -> bool:
        return any(op.name == "gpuscope::attention" for op in program.ops)

    assert fused_attention(captured(build(False)))
    assert not fused_attention(captured(build(True)))


def test_products_of_traced_gradients_are_in_the_type_of_autocast() -> None:
    def build(compiled: bool) -> Callable[[], Step]:
        def make() -> Step:
            layer = torch.nn.Linear(64, 64).cuda()

            def run(x: Any) -> Any:
                q = layer(x).view(2, 64, 4, 16).transpose(1, 2)
                mask = torch.ones(64, 1, dtype=torch.bool, device="cuda").expand(2, 1, 64, 64)
                return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

            call = torch.compile(run) if compiled else run
            x = torch.randn(2, 64, 64, device="cuda")

            def step() -> None:
                with torch.autocast("cuda", torch.bfloat16):
                    out = call(x)
                out.float().sum().backward()

            return step

        return make

    def types(program: Program, phase: str) -> set[str]:
        found = [op for op in program.ops if op.name == "aten::bmm" and op.phase == phase]
        return {op.inputs[0].dtype for op in found}

    compiled, eager = captured(build(True)), captured(build(False))
    assert types(compiled, "forward") == types(eager, "forward") == {"float32"}
    assert types(compiled, "backward") == {"bfloat16"}
    assert types(eager, "backward") == {"float32"}


def test_results_without_a_gradient_are_filled_with_zeros() -> None:
    """A loss beside its logits: the compiled backward pass is given zeros for the logits."""

    def build(alone: bool) -> Callable[[], Step]:
        def make() -> Step:
            layer = torch.nn.Linear(64, 1000).cuda()
            labels = torch.randint(0, 1000, (256,), device="cuda")

            def run(x: Any) -> Any:
                logits = layer(x)
                loss = torch.nn.functional.cross_entropy(logits, labels)
                return loss if alone else (loss, logits)

            call = torch.compile(run)
            x = torch.randn(256, 64, device="cuda")

            def step() -> None:
                out = call(x)
                (out if alone else out[0]).backward()

            return step

        return make

    both, loss = captured(build(False)), captured(build(True))
    returned = [op for op in both.ops if op.name == RETURNED]
    assert len(returned) == 1
    assert len(returned[0].inputs) == 2
    zeros = [op for op in fuse(both).ops if op.name == "aten::zeros"]
    assert [op.outputs[0].shape for op in zeros] == [(256, 1000)]
    assert not [op for op in fuse(loss).ops if op.name == "aten::zeros"]
    said = " ".join(fuse(both).assumptions)
    assert "nobody differentiates" in said
    assert "nobody differentiates" not in " ".join(fuse(loss).assumptions)


def test_gradients_that_are_summed_up_come_after_the_compiled_backward_pass() -> None:
    def build() -> Step:
        model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)]).cuda()
        call = torch.compile(model)
        x = torch.randn(8, 64, device="cuda")

        def step() -> None:
            for _ in range(2):
                call(x).sum().backward()

        return step

    fused = fuse(captured(build))
    adds = [op.index for op in fused.ops if op.name == "aten::add_" and op.phase == "backward"]
    assert adds
    last = max(op.index for op in fused.ops if op.region == 2 and op.phase == "backward")
    second = [index for index in adds if index > last]
    assert len(second) == 6  # weights and biases, added to the first micro-batch's


def test_convolutions_are_compiled_channels_last() -> None:
    def build() -> Step:
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 128, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(128, 128, 3, padding=1),
        ).cuda()
        call = torch.compile(net)
        x = torch.randn(8, 3, 32, 32, device="cuda")
        return lambda: call(x).sum().backward()

    program = captured(build)
    second = [op for op in fuse(program).ops if op.name == "aten::convolution"][1]
    assert second.inputs[0].is_channels_last
    assert (
        not [op for op in program.ops if op.name == "aten::convolution"][1]
        .inputs[0]
        .is_channels_last
    )


def test_what_is_not_compiled_is_not_fused() -> None:
    def build() -> Step:
        call = torch.compile(lambda x: torch.relu(x) * 2)
        x = torch.randn(64, 64, device="cuda")
        return lambda: torch.exp(torch.sin(call(x)))

    names = [op.name for op in fuse(captured(build)).ops if not op.view]
    assert names == [FUSED, "aten::sin", "aten::exp"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_compiled_optimizer_goes_over_each_tensor_once(whole: bool) -> None:
    def build() -> Step:
        model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(3)]).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(8, 512, device="cuda")

        def train() -> None:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        update = optimizer.step if whole else torch.compile(optimizer.step)

        def step() -> None:
            optimizer.zero_grad()
            model(x).sum().backward()
            update()

        return torch.compile(train) if whole else step

    program = captured(build)
    assert program.graph_breaks == ()  # a step's number is computed by the generated code
    (kernel,) = [op for op in fuse(program).ops if op.phase == "optimizer" and not op.view]
    assert kernel.name == FUSED
    size = 4 * 3 * (512 * 512 + 512)
    # Parameter, gradient and both moments are read; all but the gradient are written.
    assert sum(t.nbytes for t in kernel.inputs) == 4 * size
    assert sum(t.nbytes for t in kernel.outputs) == 3 * size


def test_what_is_compiled_but_never_called_is_not_compiled():
    """A library compiles a function of its own at import: the step stays what it is."""
    import torch

    from gpuscope.program.capture import capture

    def build(used: bool):
        def made():
            other = torch.compile(lambda x: x * 2, mode="max-autotune")
            model = torch.nn.Linear(4, 4).cuda()
            wanted = torch.compile(model) if used else model
            torch.compile(other, mode="reduce-overhead")
            x = torch.ones(2, 4, device="cuda")
            return lambda: wanted(x).sum()

        return made

    assert capture(build(False)).compiled == ""
    assert capture(build(True)).compiled == "default"
