"""XLA's GPU compiler, run where no GPU is: `jax-cuda13-plugin` brings it, in a process of its own.

What comes back is the module as the GPU would run it: partitioned for its mesh, fused, scheduled,
its library calls chosen as far as that needs no trial, its buffers laid out. What XLA tries out on
a GPU (which kernel of a product is quickest) is left to gpuscope's own models.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from gpuscope import children
from gpuscope.document.text import Text
from gpuscope.errors import MissingPackageError, WorkloadError
from gpuscope.hardware import Cluster
from gpuscope.program.jax.lowering import Lowered
from gpuscope.program.jax.target import target_config

__all__ = ["Compiled", "compiled"]

_LONGEST_S = 1800.0

_PLUGINS = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What XLA made.

    Attributes:
        hlo: the optimised, scheduled module's text.
        argument_bytes, output_bytes, alias_bytes, temp_bytes: of the buffers; an output that has a
            donated argument's memory is counted in `alias_bytes`, too.
        thunks: XLA's list of what the host launches, indented by what holds what; "" where this
            version does not write it.
    """

    hlo: str
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    thunks: str = ""


def compiled(lowered: Lowered, cluster: Cluster) -> Compiled:
    """Have XLA compile a module for one GPU of a cluster.

    Args:
        lowered: the module; it may have fewer partitions than the cluster has GPUs.
        cluster: what it is compiled for.

    Raises:
        MissingPackageError: the plugin is not installed.
        UnsupportedError: no GPU of XLA's.
        WorkloadError: XLA refused the module.
    """
    _check_plugin()
    nodes = -(-lowered.devices // cluster.devices_per_node)
    each = -(-lowered.devices // nodes)
    request = {"topology": f"1x{nodes}x{each}", "shardy": b"sdy" in lowered.module}
    with tempfile.TemporaryDirectory(prefix="gpuscope-xla-") as name:
        folder = Path(name)
        (folder / "module.mlirbc").write_bytes(lowered.module)
        (folder / "target.txtpb").write_text(target_config(cluster.device), "utf-8")
        (folder / "request.json").write_text(json.dumps(request), "utf-8")
        ran = subprocess.run(
            children.python("gpuscope.program.jax.child", str(folder)),
            env=children.environment(),
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
        answer = folder / "answer.json"
        if not answer.is_file():
            raise _refused(lowered, ran.stderr.decode("utf-8", "replace"))
        read: Mapping[str, object] = json.loads(answer.read_text("utf-8"))
        memory = read["memory"]
        assert isinstance(memory, dict)
        dumped = sorted((folder / "dump").glob("*thunk_sequence_after_thunk_passes.txt"))
        thunks = dumped[0].read_text("utf-8", "replace") if dumped else ""
        return Compiled(
            str(read["hlo"]),
            *(int(memory[name]) for name in ("argument", "output", "alias", "temp")),
            thunks,
        )


def _check_plugin() -> None:
    """Raise unless XLA's compiler for NVIDIA GPUs is there, of the same version as JAX."""
    found = None
    for plugin in _PLUGINS:
        try:
            found = found or find_spec(plugin)
        except ModuleNotFoundError:
            continue
    if found is None:
        raise MissingPackageError(
            "jax-cuda13-plugin", Text("Compiling a JAX function for a GPU"), "jax"
        )


def _refused(lowered: Lowered, said: str) -> WorkloadError:
    lines = [line for line in said.splitlines() if re.search(r"Error|INVALID|FAILED|Check", line)]
    why = (lines or said.strip().splitlines() or [""])[-1][:300]
    try:
        why = f"{why} (jax {version('jax')}, jaxlib {version('jaxlib')})"
    except PackageNotFoundError:
        pass
    return WorkloadError(
        Text("XLA cannot compile {name} for this device.", name=lowered.name),
        why,
        Text("Install jax and its plugin of one version: {command}", command=_INSTALL),
    )


_INSTALL = 'pip install -U "gpuscope[jax]"'
