"""Optimizers as CUDA runs them: foreach by default, fused or one by one when asked."""

from __future__ import annotations

import pytest
from captured import bytes_of, named, of, one, work

torch = pytest.importorskip("torch")
nn = torch.nn


def program_of(make):
    def build():
        layer = nn.Linear(4, 8).cuda()
        optimizer = make(layer.parameters())
        x = torch.randn(2, 4, device="cuda")

        def step():
            optimizer.zero_grad()
            layer(x).sum().backward()
            optimizer.step()

        return step

    return of(build)


PARAMETERS = 4 * 8 + 8


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), ["_foreach_add_"]),
        (
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            ["_foreach_mul_", "_foreach_add_", "_foreach_add_"],
        ),
        (lambda p: torch.optim.SGD(p, lr=0.1, foreach=False), ["add_", "add_"]),
        (lambda p: torch.optim.SGD(p, lr=0.1, fused=True), ["_fused_sgd_"]),
        (lambda p: torch.optim.AdamW(p, fused=True), ["_foreach_add_", "_fused_adamw_"]),
        (lambda p: torch.optim.Adam(p, fused=True), ["_foreach_add_", "_fused_adam_"]),
    ],
    ids=["sgd", "momentum", "sgd loop", "sgd fused", "adamw fused", "adam fused"],
)
def test_operators_of_a_step(make, expected) -> None:
    assert work(program_of(make), "optimizer") == expected


def test_adamw_default_is_foreach_with_steps_on_the_host() -> None:
    program = program_of(torch.optim.AdamW)
    on_device = [
        op.name.rpartition("::")[2]
        for op in program.ops
        if op.phase == "optimizer" and any(s.device == "device" for s in op.inputs)
    ]
    assert on_device == [
        "_foreach_mul_",
        "_foreach_lerp_",
        "_foreach_mul_",
        "_foreach_addcmul_",
        "_foreach_sqrt",
        "_foreach_div_",
        "_foreach_add_",
        "_foreach_addcdiv_",
    ]
    assert not [op for op in program.ops if op.sync]
    assert len(named(program, "_local_scalar_dense")) == 4  # two reads of each step, no wait


@pytest.mark.parametrize(
    ("make", "values_a_parameter"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), 0),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1),
        (torch.optim.Adagrad, 1),
        (torch.optim.RMSprop, 1),
        (torch.optim.Adam, 2),
        (lambda p: torch.optim.Adam(p, amsgrad=True), 3),
        (torch.optim.AdamW, 2),
        (torch.optim.NAdam, 2),
        (torch.optim.Adamax, 2),
    ],
)
def test_states_take_what_they_should(make, values_a_parameter) -> None:
    program = program_of(make)
    assert bytes_of(program, "optimizer_state") == values_a_parameter * PARAMETERS * 4
    assert bytes_of(program, "parameter") == PARAMETERS * 4
    assert bytes_of(program, "gradient", resident=False) == PARAMETERS * 4


def test_fused_optimizers_keep_their_step_counts_on_the_device() -> None:
    program = program_of(lambda p: torch.optim.AdamW(p, fused=True))
    assert bytes_of(program, "optimizer_state") == 2 * PARAMETERS * 4 + 2 * 4


def test_adagrad_can_be_fused() -> None:
    try:
        program = program_of(lambda p: torch.optim.Adagrad(p, fused=True))
    except Exception as error:  # torch before it had one refuses on its own
        pytest.skip(str(error))
    assert "_fused_adagrad_" in work(program, "optimizer")


def test_adafactor_reads_values_and_waits() -> None:
    program = program_of(torch.optim.Adafactor)
    assert {op.sync for op in program.ops if op.sync} == {"item"}


def test_a_closure() -> None:
    def build():
        layer = nn.Linear(4, 8).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        x = torch.randn(2, 4, device="cuda")

        def closure():
            optimizer.zero_grad()
            loss = layer(x).sum()
            loss.backward()
            return loss

        return lambda: optimizer.step(closure)

    program = of(build)
    assert one(program, "_foreach_add_").phase == "optimizer"
    assert {op.phase for op in named(program, "addmm")} == {"forward"}
    assert {op.phase for op in named(program, "mm")} == {"backward"}


def test_two_optimizers() -> None:
    def build():
        first, second = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
        optimizers = [
            torch.optim.SGD(first.parameters(), lr=0.1),
            torch.optim.AdamW(second.parameters(), fused=True),
        ]
        x = torch.randn(2, 4, device="cuda")

        def step():
            for layer, optimizer in zip((first, second), optimizers, strict=True):
                optimizer.zero_grad()
                layer(x).sum().backward()
                optimizer.step()

        return step

    program = of(build)
    assert len(named(program, "_fused_adamw_")) == 1
    assert [op.phase for op in named(program, "addmm")] == ["forward", "forward"]


def test_moving_averages_of_weights_stay_where_they_are() -> None:
    import copy

    def build():
        model = nn.Linear(4, 4).cuda()
        average = copy.deepcopy(model)

        @torch.no_grad()
        def step():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.mul_(0.9).add_(new, alpha=0.1)

        return step

    program = of(build)
    assert work(program) == ["mul_", "add_", "mul_", "add_"]
    assert all(op.inputs[0].storage == op.outputs[0].storage for op in program.ops)
    assert not [s for s in program.storages if s.born >= 0]


def test_averaged_models_of_torch() -> None:
    def build():
        model = nn.Linear(4, 4).cuda()
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        return lambda: average.update_parameters(model)

    assert "_foreach_lerp_" in work(of(build))


def test_a_rate_on_the_device_is_known():
    program = program_of(
        lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01, device="cuda"), fused=True)
    )
    assert named(program, "_fused_adamw_")


def test_the_history_of_lbfgs_is_full_and_gone_through_in_each_iteration():
    def build():
        layer = nn.Linear(4, 8).cuda()
        optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=3, history_size=7)
        x = torch.randn(2, 4, device="cuda")

        def closure():
            optimizer.zero_grad()
            loss = layer(x).sum()
            loss.backward()
            return loss

        return lambda: optimizer.step(closure)

    program = of(build)
    # Two iterations fit into five quarters of three evaluations: products with both lists in each.
    assert len(named(program, "dot")) >= 2 * 2 * 7
    resident = sum(s.nbytes for s in program.storages if s.born < 0)
    assert resident > 2 * 7 * 4 * PARAMETERS
    assert any("L-BFGS" in str(told) for told in program.assumptions)
