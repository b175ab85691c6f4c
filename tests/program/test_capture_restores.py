"""A capture leaves the process as it was, also when the user's code fails."""

from __future__ import annotations

import gc
import random
import socket

import pytest
from captured import of

from gpuscope.errors import WorkloadError

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


def everything_patched() -> dict[str, object]:
    names = {
        torch.cuda: [
            "is_available",
            "device_count",
            "synchronize",
            "Stream",
            "Event",
            "stream",
            "current_device",
            "get_device_properties",
            "memory_allocated",
        ],
        torch.Tensor: ["to", "cuda", "cpu", "type", "type_as", "tolist", "numpy"],
        torch: ["tensor", "as_tensor", "asarray", "compile", "Generator"],
        torch.nn.Module: ["_apply", "compile"],
        torch.autocast: ["__exit__"],
        torch.utils.data.DataLoader: ["_get_iterator"],
        torch._C: ["_group_tensors_by_device_and_dtype"],
        torch._C._nn: ["_parse_to"],
        socket: ["getaddrinfo"],
        socket.socket: ["connect"],
        torch._subclasses.FakeTensor: ["__torch_dispatch__", "tolist"],
    }
    return {
        f"{owner}.{name}": getattr(owner, name)
        if name != "__torch_dispatch__"
        else vars(owner)[name]
        for owner, listed in names.items()
        for name in listed
    }


def fine():
    layer = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.AdamW(layer.parameters())
    x = torch.randn(2, 4, device="cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = F.scaled_dot_product_attention(*[layer(x)[None, None]] * 3).sum()
        loss.backward()
        optimizer.step()

    return step


def fails_in_build():
    torch.set_default_device("cuda")
    raise RuntimeError("no")


def fails_in_step():
    layer = nn.Linear(4, 4).cuda()

    def step():
        with torch.autocast("cuda"), torch.device("cuda"):
            layer(torch.randn(2, 4)).sum().backward()
            raise RuntimeError("no")

    return step


def capture_and_ignore(build) -> None:
    try:
        of(build)
    except WorkloadError:
        assert build is not fine


BUILDS = [fine, fails_in_build, fails_in_step]


@pytest.mark.parametrize("build", BUILDS)
def test_names_are_put_back(build) -> None:
    before = everything_patched()
    capture_and_ignore(build)
    after = everything_patched()
    assert {n for n in before if before[n] is not after[n] and before[n] != after[n]} == set()
    assert gc.isenabled()


@pytest.mark.parametrize(("frozen", "asked"), [(0, ["freeze", "unfreeze"]), (5, [])])
@pytest.mark.parametrize("build", BUILDS)
def test_what_was_frozen_stays_frozen_and_nothing_else(
    build, frozen: int, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen)
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: called.append(name))
    capture_and_ignore(build)
    assert called == asked


@pytest.mark.parametrize("build", BUILDS)
def test_real_work_goes_on(build) -> None:
    capture_and_ignore(build)
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 4), torch.ones(2, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    assert torch.allclose(x.grad, layer.weight.sum(0).expand(2, 4), atol=0.02)
    q = torch.randn(1, 2, 8, 16)
    expected = torch.softmax(q @ q.transpose(-2, -1) / 4, -1) @ q
    assert torch.allclose(F.scaled_dot_product_attention(q, q, q), expected, atol=1e-5)
    assert torch.dropout(torch.ones(1000), 0.5, True).sum() > 0
    out, _ = nn.LSTM(4, 4)(torch.randn(3, 2, 4))
    assert torch.isfinite(out).all()
    assert torch.tensor([1.0, 2.0]).to(torch.float64).numpy().tolist() == [1.0, 2.0]
    optimizer = torch.optim.AdamW(layer.parameters())
    optimizer.step()
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16


def test_dispatch_tables_are_as_before() -> None:
    key = "AutocastCUDA"
    before = torch._C._dispatch_dump("aten::mm")
    of(fine)
    assert torch._C._dispatch_dump("aten::mm") == before
    assert "AutogradCUDA" not in [
        line for line in torch._C._dispatch_dump("aten::dropout").splitlines() if "gpuscope" in line
    ]
    assert key


def test_settings_of_the_process_are_put_back() -> None:
    def build():
        torch.set_default_device("cuda")
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(False)
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.enable_flash_sdp(False)
        torch.manual_seed(7)
        random.seed(7)
        layer, x = nn.Linear(4, 4), torch.randn(2, 4)
        return lambda: layer(x)

    torch_state, python_state = torch.get_rng_state(), random.getstate()
    program = of(build)
    assert program.settings["tf32_matmul"]
    assert program.settings["cudnn_benchmark"]
    assert program.dtype == "float16"
    assert torch.zeros(1).device.type == "cpu"
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.benchmark
    assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state


def test_a_default_device_of_before_stays() -> None:
    torch.set_default_device("cpu")
    before = torch._GLOBAL_DEVICE_CONTEXT.device_context
    try:
        capture_and_ignore(fails_in_build)
        assert torch._GLOBAL_DEVICE_CONTEXT.device_context.device == before.device
    finally:
        torch.set_default_device(None)


def test_no_fakes_are_left_behind() -> None:
    def fakes() -> int:
        gc.collect()
        return sum(type(o) is torch._subclasses.FakeTensor for o in gc.get_objects())

    before = fakes()  # those of failed tests that ran earlier in this process
    of(fine)
    of(fine)
    assert fakes() <= before
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_switches_that_nobody_may_write_to_are_left_alone(monkeypatch) -> None:
    """As `torch.testing` has them for PyTorch's own tests."""
    monkeypatch.setattr(torch.backends, "flags_frozen", lambda: True)

    def build():
        x = torch.ones(4, device="cuda")
        return lambda: x + 1

    assert [op.name for op in of(build).ops] == ["aten::add"]
