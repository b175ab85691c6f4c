"""Triton kernels of the user's own under a capture, with Triton and without."""

from __future__ import annotations

import importlib.util
import sys

import pytest

torch = pytest.importorskip("torch")

from gpuscope.cost.engine import cost_program  # noqa: E402
from gpuscope.errors import CaptureError  # noqa: E402
from gpuscope.hardware import parse_target  # noqa: E402
from gpuscope.program.capture import capture  # noqa: E402
from gpuscope.program.capture.triton_stand_in import StandIn  # noqa: E402

USER = """
import torch
import triton
import triton.language as tl
from triton.runtime import driver
from triton.language.extra import libdevice


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 1024 == 0})
@triton.jit
def scaled(x_ptr, y_ptr, n, scale: tl.float32, BLOCK: tl.constexpr, EVEN: tl.constexpr = True):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * scale, mask=at < n)


@triton.jit(do_not_specialize=["n"])
def plain(x_ptr, n):
    tl.store(x_ptr, n)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        scaled[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 2.0, BLOCK=1024)
        return y

    @staticmethod
    def backward(ctx, grad):
        out = torch.empty_like(grad)
        scaled[lambda meta: (triton.cdiv(grad.numel(), meta["BLOCK"]),)](
            grad, out, grad.numel(), scale=2.0
        )
        return out


def build():
    weight = torch.ones(1 << 24, device="cuda", requires_grad=True)
    assert triton.cdiv(10, 4) == 3
    assert triton.next_power_of_2(1000) == 1024

    def step():
        Scale.apply(weight).sum().backward()
        plain[(1,)](weight, 3)

    return step
"""

_OPAQUE = """
import torch
import triton
import triton.language as tl


@triton.jit
def opaque(x_ptr, n):
    tl.store(x_ptr, tl.not_there(n))


def build():
    x = torch.ones(1 << 24, device="cuda")
    return lambda: opaque[(1,)](x, 3)
"""

MISSING = importlib.util.find_spec("triton") is None


def _build(folder, monkeypatch):
    """Imported inside of the capture, as a script imports it."""
    (folder / "user_kernels.py").write_text(USER)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "user_kernels", raising=False)

    def build():
        import user_kernels

        return user_kernels.build()

    return build


def test_launches_are_noted_with_their_tensors(tmp_path, monkeypatch):
    build = _build(tmp_path, monkeypatch)
    program = capture(build)
    launched = [op for op in program.ops if op.name.startswith("triton::")]
    assert [op.name for op in launched] == ["triton::scaled", "triton::scaled", "triton::plain"]
    assert [op.phase for op in launched][:2] == ["forward", "backward"]
    assert [len(op.inputs) for op in launched] == [2, 2, 1]
    assert [len(op.outputs) for op in launched] == [1, 1, 1]
    assert not program.assumptions
    again = capture(build)  # the module keeps the kernels it was imported with
    assert [op.name for op in again.ops] == [op.name for op in program.ops]
    monkeypatch.delitem(sys.modules, "user_kernels", raising=False)


def test_it_moves_its_bytes_once(tmp_path, monkeypatch):
    costed = cost_program(capture(_build(tmp_path, monkeypatch)), parse_target("h200").device)
    kernels = [k for op in costed.ops for k in op.kernels if k.name == "scaled"]
    moved = 2 * 4 * (1 << 24)
    for kernel in kernels:
        assert moved / 10e12 < kernel.duration_s < moved / 3.5e12  # of L2, of memory
        assert 1.3 < kernel.high_s / kernel.duration_s < 1.5
        assert "BLOCK=1024" in kernel.note
    assert len(kernels) == 2
    monkeypatch.delitem(sys.modules, "user_kernels", raising=False)


def test_what_is_not_followed_moves_its_tensors_once(tmp_path, monkeypatch):
    folder = tmp_path / "opaque"
    folder.mkdir()
    monkeypatch.setattr(sys.modules[__name__], "USER", _OPAQUE)
    build = _build(folder, monkeypatch)
    program = capture(build)
    assert any("tl.not_there is not followed" in text for text in program.assumptions)
    costed = cost_program(program, parse_target("h200").device)
    (kernel,) = (k for op in costed.ops for k in op.kernels)
    assert kernel.high_s > 3 * kernel.duration_s
    with pytest.raises(CaptureError, match="opaque"):
        capture(build, strict=True)
    monkeypatch.delitem(sys.modules, "user_kernels", raising=False)


@pytest.mark.skipif(not MISSING, reason="Triton is installed")
def test_nothing_stays_behind(tmp_path, monkeypatch):
    finders = list(sys.meta_path)
    capture(_build(tmp_path, monkeypatch))
    assert sys.meta_path == finders
    assert not [name for name in sys.modules if name.partition(".")[0] == "triton"]
    with pytest.raises(ImportError):
        import triton  # noqa: F401
    monkeypatch.delitem(sys.modules, "user_kernels", raising=False)


def test_the_stand_in_tells_its_version_and_a_configuration():
    """As mamba_ssm asks for them, around its autotuned kernels (mamba_ssm/ops/triton)."""
    if not MISSING:
        pytest.skip("Triton is installed")
    stand_in = StandIn(lambda kernel, args, kwargs: None)
    stand_in.begin()
    try:
        import triton

        assert triton.__version__ == "3.6.0"
        with pytest.raises(AttributeError):
            _ = triton.language.__version__
        configs = [triton.Config({"BLOCK": n}) for n in (64, 128)]
        tuned = triton.autotune(configs, key=["n"])(triton.jit(lambda: None))
        assert tuned.best_config.kwargs["BLOCK"] == 64
        assert triton.heuristics({})(tuned).best_config is configs[0]
        with pytest.raises(AttributeError, match="best_config"):
            _ = triton.jit(lambda: None).best_config
    finally:
        stand_in.end()


def test_the_stand_in_takes_any_use():
    told = []
    stand_in = StandIn(lambda kernel, args, kwargs: told.append((kernel.__name__, args, kwargs)))
    if not MISSING:
        pytest.skip("Triton is installed")
    stand_in.begin()
    try:
        import triton
        import triton.language as tl
        from triton.tools.tensor_descriptor import TensorDescriptor

        class Mine(TensorDescriptor):
            pass

        @triton.jit
        def kernel(x, n: tl.constexpr):
            raise AssertionError("bodies never run")

        kernel[(1,)](5, n=2)
        assert told == [("kernel", (5,), {"n": 2, "grid": (1,)})]
        assert Mine() is not None
        assert tl.math.exp(tl.float32)[None] is not None
        assert not hasattr(triton, "__wrapped__")
    finally:
        stand_in.end()
