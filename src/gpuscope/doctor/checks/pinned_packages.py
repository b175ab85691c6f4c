"""Are the packages that PyTorch was built and tested with the ones that are installed?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import version
from gpuscope.explain.types import Words

_BY = "metadata of the package torch"


@check("pinned_packages", "software", "cuDNN, NCCL, cuBLAS, ... as this PyTorch asks for them")
def run(machine: Machine) -> Iterator[Finding]:
    """Compare installed packages with the exact versions that PyTorch's metadata names."""
    torch = torch_facts(machine) or {}
    pins, installed = torch.get("torch_pins") or {}, torch.get("packages") or {}
    wanted = {name: str(pin) for name, pin in pins.items() if "triton" not in name}
    if not wanted:
        return
    others = {
        name: (pin, str(installed[name]))
        for name, pin in wanted.items()
        if name in installed and version(installed[name]) != version(pin)
    }
    values = {name: str(installed[name]) for name in wanted if name in installed}
    if not others:
        known = [name for name in wanted if name in installed]
        if known:
            yield Finding(
                "pinned_packages", "ok",
                Words("The libraries are those PyTorch asks for.", "库版本与 PyTorch 的要求一致。"),
                Words(f"{len(known)} packages as pinned", f"{len(known)} 个软件包版本一致"),
                known_by=_BY, values=values,
            )  # fmt: skip
        return
    worse = any(
        version(have) < version(pin) or version(have)[:1] != version(pin)[:1]
        for pin, have in others.values()
    )
    shown = "; ".join(f"{name} {have}, not {pin}" for name, (pin, have) in others.items())
    chinese = "；".join(f"{name} {have}（应为 {pin}）" for name, (pin, have) in others.items())
    fix = [f"{name}=={pin}" for name, (pin, _) in others.items()]
    yield Finding(
        "pinned_packages", "warning" if worse else "note",
        Words(
            "Some libraries are not the versions that this PyTorch was built with.",
            "部分库的版本与此 PyTorch 构建时所用的不同。",
        ),
        Words(f"{shown}.", f"{chinese}。"),
        Words(
            "Older ones may lack functions (an import fails) or give other status codes; newer "
            "ones of the same major version mostly work.",
            "旧版本可能缺少函数（导入失败）或返回异常状态码；同一主版本的较新版本通常可用。",
        ),
        Words("Install the versions that it asks for.", "安装它所要求的版本。"),
        (f"pip install {' '.join(fix)}",), _BY, values=values,
    )  # fmt: skip
