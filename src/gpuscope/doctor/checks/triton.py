"""Is Triton here, and is it the one that this PyTorch compiles with?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import version
from gpuscope.explain.types import Words

_NAMES = ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "triton-windows")


@check("triton", "software", "Triton, with which torch.compile makes its kernels")
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the installed Triton with the one that PyTorch asks for; CPU builds need none."""
    torch = torch_facts(machine) or {}
    if not torch.get("devices") or not (torch.get("cuda_build") or torch.get("hip_build")):
        return
    packages, pins = torch.get("packages") or {}, torch.get("torch_pins") or {}
    have = next((str(packages[n]) for n in _NAMES if n in packages), torch.get("triton"))
    want = next((str(pins[n]) for n in _NAMES if n in pins), None)
    values = {"triton": have, "triton_wanted": want}
    by = "metadata of the packages torch and triton"
    if not have:
        yield Finding(
            "triton", "warning",
            Words("Triton is not installed.", "没有安装 Triton。"),
            Words("torch.compile needs it on a GPU.", "torch.compile 在 GPU 上需要它。"),
            Words("torch.compile fails on this device.", "torch.compile 在该设备上会失败。"),
            Words("Install the version that PyTorch asks for.", "安装 PyTorch 所要求的版本。"),
            (f"pip install triton=={want}" if want else "pip install triton",), by, values=values,
        )  # fmt: skip
    elif want and version(have)[:2] != version(want)[:2]:
        yield Finding(
            "triton", "warning",
            Words(
                f"Triton {have} is not the one that this PyTorch was built for.",
                f"Triton {have} 不是此 PyTorch 所配套的版本。",
            ),
            Words(f"PyTorch asks for {want}.", f"PyTorch 要求 {want}。"),
            Words(
                "torch.compile uses Triton's inner parts: it may fail or make slow kernels.",
                "torch.compile 使用 Triton 的内部接口：可能失败或生成较慢的内核。",
            ),
            Words("Install the version that it asks for.", "安装它所要求的版本。"),
            (f"pip install triton=={want}",), by, values=values,
        )  # fmt: skip
    else:
        fits = Words("Triton fits PyTorch.", "Triton 与 PyTorch 相符。")
        shown = Words(f"{have}, as PyTorch asks", f"{have}，符合 PyTorch 的要求")
        plain = Words(str(have), str(have))
        yield Finding(
            "triton", "ok", fits, shown if want else plain, known_by=by, values=values
        )  # fmt: skip
