"""XLA's GPU compiler, run where no GPU is: `jax-cuda13-plugin` brings it, in a process of its own.

What comes back is the module as the GPU would run it: partitioned for its mesh, fused, scheduled,
its library calls chosen as far as that needs no trial, its buffers laid out. What XLA tries out on
a GPU (which kernel of a product is quickest) is left to gpuscope's own models.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from gpuscope import children
from gpuscope.document.text import Text
from gpuscope.errors import MissingPackageError, UnsupportedError, WorkloadError
from gpuscope.program.jax.lowering import Lowered

__all__ = ["Compiled", "Target", "compiled"]

_LONGEST_S = 1800.0

_PLUGINS = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")


@dataclass(frozen=True, slots=True)
class Target:
    """What XLA compiles for.

    Attributes:
        description: the device, see `gpuscope.hardware.xla_target`.
        devices: GPUs of the job.
        node: GPUs of a node.
    """

    description: str
    devices: int = 1
    node: int = 8


@dataclass(frozen=True, slots=True)
class Compiled:
    """What XLA made.

    Attributes:
        hlo: the optimised, scheduled module's text.
        argument_bytes, output_bytes, alias_bytes, temp_bytes: of the buffers; an output that has a
            donated argument's memory is counted in `alias_bytes`, too.
    """

    hlo: str
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int


def compiled(lowered: Lowered, target: Target) -> Compiled:
    """Have XLA compile a module.

    Args:
        lowered: the module.
        target: what it is compiled for.

    Raises:
        MissingPackageError: the plugin is not installed.
        WorkloadError: XLA refused the module.
    """
    _check_plugin()
    nodes = -(-lowered.devices // target.node)
    each = -(-lowered.devices // nodes)
    request = {"topology": f"1x{nodes}x{each}", "shardy": b"sdy" in lowered.module}
    with tempfile.TemporaryDirectory(prefix="gpuscope-xla-") as name:
        folder = Path(name)
        (folder / "module.mlirbc").write_bytes(lowered.module)
        (folder / "target.txtpb").write_text(target.description, "utf-8")
        (folder / "request.json").write_text(json.dumps(request), "utf-8")
        ran = subprocess.run(
            children.python("gpuscope.program.jax.child", str(folder)),
            env=children.environment(),
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
        answer = folder / "answer.json"
        if ran.returncode or not answer.is_file():
            raise _refused(lowered, ran.stderr.decode("utf-8", "replace"))
        read: Mapping[str, object] = json.loads(answer.read_text("utf-8"))
        memory = read["memory"]
        assert isinstance(memory, dict)
        return Compiled(
            str(read["hlo"]),
            *(int(memory[name]) for name in ("argument", "output", "alias", "temp")),
        )


def _check_plugin() -> None:
    """Raise unless XLA's compiler for NVIDIA GPUs is there; it is made for Linux alone."""
    found = None
    for plugin in _PLUGINS:
        try:
            found = found or find_spec(plugin)
        except ModuleNotFoundError:
            continue
    if found is None and sys.platform != "linux":
        raise UnsupportedError(
            Text("A JAX function cannot be predicted on this system."),
            Text("XLA's compiler for GPUs, jax-cuda13-plugin, is made for Linux."),
            Text("Predict on Linux, also in WSL or a container."),
        )
    if found is None:
        raise MissingPackageError(
            "jax-cuda13-plugin", Text("Compiling a JAX function for a GPU"), "jax"
        )


def _refused(lowered: Lowered, said: str) -> WorkloadError:
    lines = [line for line in said.splitlines() if re.search(r"Error|INVALID|FAILED|Check", line)]
    why = (lines or said.strip().splitlines() or [""])[-1][:300]
    with contextlib.suppress(PackageNotFoundError):
        why = f"{why} (jax {version('jax')}, jaxlib {version('jaxlib')})"
    return WorkloadError(
        Text("XLA cannot compile {name} for this device.", name=lowered.name),
        why,
        Text("Install jax and its plugin of one version: {command}", command=_INSTALL),
    )


_INSTALL = 'pip install "gpuscope[jax]"'
