"""Is the driver new enough for the CUDA that PyTorch was built with?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvml, torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import SOURCE, least_driver, shipped_driver, version
from gpuscope.document.text import Text, verbatim

_BY = "torch.version.cuda; NVML"


@check("cuda_runtime", "software", Text("The driver against the CUDA that PyTorch was built with"))
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the two by NVIDIA's rules: backward, minor-version and forward compatibility."""
    torch, driver = torch_facts(machine), nvml(machine)
    built = version((torch or {}).get("cuda_build"))
    most = version((driver or {}).get("cuda_driver"))
    if not torch or not driver or not built or not most:
        return
    cuda, installed = str(torch["cuda_build"]), str(driver["driver"])
    values = {
        "cuda_build": cuda,
        "cuda_driver": str(driver["cuda_driver"]),
        "driver": installed,
        "least_driver": least_driver(cuda),
        "shipped_driver": shipped_driver(cuda),
    }
    evidence = Text(
        "PyTorch is built with CUDA {cuda}; driver {installed} runs CUDA up to {driver}.",
        cuda=cuda,
        installed=installed,
        driver=driver["cuda_driver"],
    )
    if built[:2] <= most[:2]:
        title = Text("The driver is new enough for this PyTorch.")
        yield Finding("cuda_runtime", "ok", title, evidence, known_by=_BY, values=values)
    elif built[0] == most[0]:
        yield _minor(cuda, evidence, values)
    else:
        yield _too_old(machine, cuda, evidence, values)


def _minor(cuda: str, evidence: Text, values: dict[str, str | None]) -> Finding:
    whole = shipped_driver(cuda)
    return Finding(
        "cuda_runtime",
        "note",
        Text("This PyTorch is built with a newer CUDA {cuda}.x than the driver's.", cuda=cuda[:2]),
        Text(
            "{told} That works within one major version, except for new features and code that is "
            "compiled from PTX when it runs.",
            told=evidence,
        ),
        fix=Text("Driver {whole} or newer has everything.", whole=whole) if whole else None,
        known_by=f"{_BY}; {SOURCE}",
        values=values,
    )


def _too_old(machine: Machine, cuda: str, evidence: Text, values: dict[str, str | None]) -> Finding:
    torch = torch_facts(machine) or {}
    if torch.get("available"):  # it works all the same: by the forward compatibility package
        return Finding(
            "cuda_runtime",
            "note",
            Text("This PyTorch works on an older driver by the forward compatibility package."),
            evidence,
            known_by=f"{_BY}; {SOURCE}",
            values=values,
        )
    least = least_driver(cuda)
    wanted = verbatim(least) if least else Text("of CUDA {cuda}", cuda=cuda)
    major = version(str(values["cuda_driver"]))[0]
    return Finding(
        "cuda_runtime",
        "error",
        Text("The driver is too old for this PyTorch."),
        evidence,
        Text(
            "CUDA cannot be initialised: a driver runs programs of its own and older major "
            "versions."
        ),
        Text(
            "Install driver {wanted} or newer, or a PyTorch for CUDA {major}.",
            wanted=wanted,
            major=major,
        ),
        ("nvidia-smi", "python -m torch.utils.collect_env"),
        f"{_BY}; {SOURCE}",
        values=values,
    )
