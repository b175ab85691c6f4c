"""Copies between host and device, and every place where the host waits.

What waits was measured: benchmarks/micro/synchronisation.py.
"""

from __future__ import annotations

import pytest
from captured import named, of, one, work

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
nn = torch.nn
F = torch.nn.functional


def copy_of(make, call):
    """The one copy of `call(x)` with `x = make()`."""

    def build():
        x = make()
        return lambda: call(x)

    program = of(build)
    return one(program, "_to_copy")


def pageable():
    return torch.randn(4, 6)


def pinned():
    return torch.randn(4, 6).pin_memory()


def device():
    return torch.randn(4, 6, device="cuda")


@pytest.mark.parametrize(
    ("make", "call", "waits"),
    [
        (pageable, lambda x: x.to("cuda"), True),
        (pageable, lambda x: x.cuda(), True),
        (pageable, lambda x: x.to("cuda", non_blocking=True), False),
        (pinned, lambda x: x.cuda(), True),
        (pinned, lambda x: x.cuda(non_blocking=True), False),
        (pinned, lambda x: x.to("cuda:0", non_blocking=True), False),
        (pinned, lambda x: x.to(device="cuda", dtype=torch.float16, non_blocking=True), False),
        (lambda: torch.randn(1024, 1024), lambda x: x.cuda(non_blocking=True), True),
    ],
)
def test_host_to_device(make, call, waits) -> None:
    op = copy_of(make, call)
    assert op.inputs[0].device == "host"
    assert op.inputs[0].pinned is (make is pinned)
    assert op.outputs[0].device == "device"
    assert op.phase == "input"
    assert op.sync == ("blocking_copy" if waits else "")


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        (lambda x: x.cpu(), True),
        (lambda x: x.to("cpu"), True),
        (lambda x: x.to(torch.device("cpu")), True),
        (lambda x: x.to("cpu", torch.float16), True),
        (lambda x: x.tolist(), True),
        (lambda x: x.cpu().numpy(), True),
        (lambda x: x.numpy(force=True), True),
        (lambda x: torch.as_tensor(x, device="cpu"), True),
        (lambda x: x.to("cpu", non_blocking=True), False),
        (lambda x: x.type("torch.FloatTensor"), True),
    ],
)
def test_device_to_host(call, waits) -> None:
    op = copy_of(device, call)
    assert op.inputs[0].device == "device"
    assert op.outputs[0].device == "host"
    assert op.outputs[0].shape == (4, 6)
    assert op.outputs[0].pinned is not waits  # torch pins what nobody waits for
    assert op.sync == ("blocking_copy" if waits else "")


@pytest.mark.parametrize(
    ("target", "source", "waits"),
    [
        (device, pageable, False),
        (device, pinned, False),
        (pinned, device, False),
        (pageable, device, True),
    ],
)
def test_copy_into_a_tensor_without_waiting(target, source, waits) -> None:
    def build():
        into, x = target(), source()
        return lambda: into.copy_(x, non_blocking=True)

    op = one(of(build), "copy_")
    assert op.sync == ("blocking_copy" if waits else "")
    assert op.inputs[0].storage == op.outputs[0].storage


def test_copies_within_the_device_do_not_wait() -> None:
    def build():
        x, y = device(), device()
        return lambda: (x.to("cuda"), x.cuda(), y.copy_(x), x.half(), x.type_as(y), x.to(y))

    program = of(build)
    assert work(program) == ["copy_", "_to_copy"]
    assert not [op for op in program.ops if op.sync]


def test_type_as_stays_on_the_device() -> None:
    half = torch.float16
    op = copy_of(device, lambda x: x.type_as(torch.empty(1, device="cuda", dtype=half)))
    assert (op.outputs[0].device, op.outputs[0].dtype) == ("device", "float16")


@pytest.mark.parametrize(
    ("make", "waits"),
    [
        (lambda: torch.tensor([1.0, 2.0], device="cuda"), True),
        (lambda: torch.tensor(1.0, device="cuda"), True),
        (lambda: torch.as_tensor(np.ones(3, "float32"), device="cuda"), True),
        (lambda: torch.from_numpy(np.ones(3, "float32")).cuda(), True),
        (lambda: torch.randn(3, device="cuda"), False),
        (lambda: torch.arange(3, device="cuda"), False),
        (lambda: torch.randint(0, 5, (3,), device="cuda"), False),
        (lambda: torch.full((3,), 2.0, device="cuda"), False),
    ],
)
def test_making_a_tensor_in_the_step(make, waits) -> None:
    program = of(lambda: make)
    assert [op.outputs[0].device for op in program.ops][-1] == "device"
    assert [op.sync for op in program.ops if op.sync] == (["blocking_copy"] if waits else [])


def test_item_waits_on_the_device_only() -> None:
    def build():
        x, y = device(), pageable()
        return lambda: (x.sum().item(), float(y.sum()), bool(x.any()))

    assert [op.sync for op in named(of(build), "_local_scalar_dense")] == ["item", "", "item"]


def test_synchronisation_calls() -> None:
    def build():
        x = device()
        event, stream = torch.cuda.Event(enable_timing=True), torch.cuda.Stream()

        def step():
            y = x * 2
            event.record()
            torch.cuda.synchronize()
            event.synchronize()
            stream.synchronize()
            torch.cuda.current_stream().wait_stream(stream)
            return y, event.elapsed_time(event)

        return step

    program = of(build)
    assert [op.sync for op in program.ops if op.sync] == ["synchronize"] * 3


def test_work_on_another_stream_carries_it() -> None:
    def build():
        x = device()
        side = torch.cuda.Stream()

        def step():
            with torch.cuda.stream(side):
                y = x * 2
            torch.cuda.current_stream().wait_stream(side)
            return y + 1

        return step

    program = of(build)
    assert one(program, "mul").stream != 0
    assert one(program, "add").stream == 0


def test_gradients_cross_back() -> None:
    def build():
        layer = nn.Linear(4, 4).cuda()
        x = torch.randn(2, 4, device="cuda")

        def step():
            layer.zero_grad()
            layer(x).sum().cpu().backward()

        return step

    program = of(build)
    copies = named(program, "_to_copy")
    assert [(op.inputs[0].device, op.outputs[0].device) for op in copies] == [
        ("device", "host"),
        ("host", "device"),
    ]
    assert {s.device for op in named(program, "mm") for s in op.inputs} == {"device"}


def test_a_model_kept_on_the_host_and_moved_for_the_step() -> None:
    def build():
        layer = nn.Linear(4, 4, bias=False)
        x = torch.randn(2, 4, device="cuda")

        def step():
            layer.zero_grad()
            F.linear(x, layer.weight.cuda()).sum().backward()
            assert layer.weight.grad.device.type == "cpu"

        return step

    devices = [(op.inputs[0].device, op.outputs[0].device) for op in named(of(build), "_to_copy")]
    assert devices == [("host", "device"), ("device", "host")]


def test_a_formatted_scalar_is_read():
    import torch

    from gpuscope.program.capture import capture

    def build():
        x = torch.ones(4, device="cuda")
        return lambda: f"{x.sum():.4f} {x.mean().cpu():8.2e}"

    ops = [op for op in capture(build).ops if op.sync]
    assert [op.name for op in ops] == ["aten::_local_scalar_dense", "aten::_to_copy"]


def test_a_slice_from_a_place_drawn_on_the_host_is_the_real_one():
    """`data[i : i + 16]`, where i is drawn on the host: drawn as in a real run, nothing assumed."""
    import torch

    from gpuscope.program.capture import capture

    def build():
        data = list(range(1000))

        def step():
            rows = [data[i : i + 16] for i in torch.randint(900, (4,))]
            assert [len(row) for row in rows] == [16] * 4
            assert len({row[0] for row in rows}) > 1
            (i,) = torch.randint(900, (1,))
            assert len(data[i - 1 : i * 3 // 2 + 7]) == min(1000, i * 3 // 2 + 7) - (i - 1)
            return torch.ones(2, device="cuda") * 2

        return step

    assert not capture(build).assumptions


def test_a_slice_from_a_place_drawn_on_the_device_keeps_its_length():
    """There its value is unknown, its distance is not."""
    import torch

    from gpuscope.program.capture import capture

    def build():
        data = list(range(1000))

        def step():
            rows = [data[i : i + 16] for i in torch.randint(900, (4,), device="cuda")]
            assert [len(row) for row in rows] == [16] * 4
            return torch.ones(2, device="cuda") * 2

        return step

    assert any("1 is taken" in text for text in capture(build).assumptions)


def test_tensors_and_models_are_copied_deeply():
    """An average of weights begins as a deep copy; so does a metric's state."""
    import copy

    import torch

    from gpuscope.program.capture import capture

    def build():
        model = torch.nn.Linear(4, 4).cuda()
        average, model.note = copy.deepcopy(model), torch.ones(2, device="cuda")
        weight = torch.ones(3, device="cuda", requires_grad=True)
        weight.sum().backward()
        twin = copy.deepcopy([weight, weight])
        assert twin[0] is twin[1]
        assert twin[0] is not weight
        assert twin[0].requires_grad
        assert twin[0].grad is not weight.grad
        assert twin[0].device == copy.deepcopy(model.note).device == weight.device
        assert copy.deepcopy(torch.tensor(0.0)).device.type == "cpu"
        with pytest.raises(RuntimeError, match="graph leaves"):
            copy.deepcopy(weight * 2)
        x = torch.ones(2, 4, device="cuda")
        return lambda: (average(x), copy.deepcopy(x))

    names = [op.name for op in capture(build).ops if not op.view]
    assert names == ["aten::addmm", "aten::clone"]
