"""Memory by life: live storages at the peak equal a calculation by hand."""

from __future__ import annotations

import subprocess
import sys
from itertools import accumulate

import pytest
from captured import bytes_of, of

torch = pytest.importorskip("torch")
nn = torch.nn

D, H, O, B = 64, 256, 32, 128  # noqa: E741
FLOAT = 4


def live_bytes(program) -> list[int]:
    """Bytes of live storages while each operator runs."""
    change = [0] * (len(program.ops) + 1)
    for s in program.storages:
        change[max(s.born, 0)] += s.nbytes
        if s.died is not None:
            change[s.died] -= s.nbytes
    return list(accumulate(change))[:-1]


def mlp(optimizer=lambda p: torch.optim.AdamW(p, fused=True)):
    def build():
        model = nn.Sequential(
            nn.Linear(D, H, bias=False), nn.ReLU(), nn.Linear(H, O, bias=False)
        ).cuda()
        optimize = optimizer(model.parameters())
        x = torch.randn(B, D, device="cuda")

        def step():
            optimize.zero_grad()
            model(x).sum().backward()
            optimize.step()

        return step

    return of(build)


def test_peak_of_an_mlp_with_adamw() -> None:
    first, second = D * H, H * O
    resident = FLOAT * (3 * (first + second) + 2 + B * D)  # weights, moments, counts, input
    relu = hidden = B * H
    # In backward the loss and its gradient are there (1 + 1), the second weight's gradient, and
    scalars = 2
    at_threshold = second + relu + 2 * hidden  # relu's result, the gradients of it and below it
    at_first_weight = second + hidden + first  # relu's result is gone
    at_optimizer = first + second
    peak = resident + FLOAT * (scalars + max(at_threshold, at_first_weight, at_optimizer))
    assert max(live_bytes(mlp())) == peak


def test_categories_are_exact() -> None:
    program = mlp()
    parameters = FLOAT * (D * H + H * O)
    assert bytes_of(program, "parameter") == parameters
    assert bytes_of(program, "gradient", resident=False) == parameters
    assert bytes_of(program, "gradient", resident=True) == parameters  # of the step before
    assert bytes_of(program, "optimizer_state") == 2 * parameters + 2 * FLOAT
    assert bytes_of(program, "input") == FLOAT * B * D
    activations = [s for s in program.storages if s.category == "activation"]
    assert FLOAT * B * H in [s.nbytes for s in activations]
    owners = {s.module for s in program.storages if s.category == "parameter"}
    assert owners == {"0", "2"}


def test_gradients_of_the_step_before_die_at_zero_grad() -> None:
    old = [s for s in mlp().storages if s.category == "gradient" and s.born < 0]
    assert [s.died for s in old] == [0, 0]


def test_gradients_kept_by_zero_grad_are_reused() -> None:
    def build():
        model = nn.Linear(D, H, bias=False).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(B, D, device="cuda")

        def step():
            optimizer.zero_grad(set_to_none=False)
            model(x).sum().backward()
            optimizer.step()

        return step

    program = of(build)
    (kept,) = [s for s in program.storages if s.category == "gradient"]
    assert (kept.born, kept.died) == (-1, None)


def test_a_result_that_is_kept_outlives_the_step() -> None:
    def build():
        kept = []
        model = nn.Linear(D, H).cuda()
        x = torch.randn(B, D, device="cuda")
        return lambda: kept.append(model(x).detach())

    program = of(build)
    last = program.storages[-1]
    assert last.nbytes == FLOAT * B * H
    assert last.died is None


def test_buffers_and_host_memory() -> None:
    def build():
        model = nn.BatchNorm1d(D).cuda()
        x = torch.randn(B, D)
        return lambda: model(x.cuda())

    program = of(build)
    assert bytes_of(program, "buffer") == 2 * D * FLOAT + 8
    assert bytes_of(program, "input", resident=False) == B * D * FLOAT
    assert sum(s.nbytes for s in program.storages if s.born < 0) == 4 * D * FLOAT + 8


def test_four_layers_of_llama_70b_take_no_memory_for_weights() -> None:
    """1.1e10 bytes of weights, and three times that for AdamW; this process stays small."""
    pytest.importorskip("transformers")
    code = """
from gpuscope.program.capture import capture
from gpuscope.program.workload import WorkloadOptions, resolve
w = resolve("llama-3.1-70b", WorkloadOptions(task="train", layers=4, batch=1, seq=4096))
p = capture(w.build, task=w.task)
# Of this process alone: what `getrusage` tells begins with that of the process that forked it.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(p.parameters, peak.split()[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    parameters, peak_kib = map(int, done.stdout.split()[-2:])
    layer = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192
    assert parameters == 4 * layer + 2 * 128256 * 8192 + 8192
    assert peak_kib * 1024 < 2e9


def test_what_a_build_held_at_most_is_known_though_it_is_gone() -> None:
    def build():
        model = nn.Linear(1024, 1024, bias=False).cuda().bfloat16()
        x = torch.randn(8, 1024, device="cuda", dtype=torch.bfloat16)
        return lambda: model(x)

    program = of(build)
    # Float32 weights (4 MiB) beside those in bfloat16 that take their place.
    assert program.build_peak_bytes == 6 << 20
    assert sum(s.nbytes for s in program.storages if s.born < 0) < 3 << 20
