"""The process that has XLA compile a module for a GPU that is not there: `python -m` with a folder.

XLA's compiler may end its process where it is not content, and it takes the CUDA plugin for good.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

__all__ = ["main"]


def main(folder: Path) -> None:
    """Compile `module.mlirbc` as `request.json` says; the answer is `answer.json`."""
    asked = json.loads((folder / "request.json").read_text("utf-8"))
    os.environ["JAX_PLATFORMS"] = "cuda"
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import numpy as np
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    topology = asked["topology"]
    made = topologies.get_topology_desc(
        platform="cuda",
        topology_name=topology,
        topology=topology,
        target_config=(folder / "target.txtpb").read_text("utf-8"),
    )
    devices = made.devices
    options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array([[device.id for device in devices]]),
        env_options_overrides={
            "xla_gpu_autotune_level": 0,  # it would run candidates
            "xla_backend_optimization_level": 0,  # of the code in kernels, which nobody runs
        },
    )
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = asked["shardy"]
    with mlir.make_ir_context():
        module = ir.Module.parse((folder / "module.mlirbc").read_bytes())
        executable = devices[0].client.compile(
            module, xla_client.DeviceList(tuple(devices)), options
        )
    memory = executable.get_compiled_memory_stats()
    names = ("argument", "output", "alias", "temp")
    answer = {
        "hlo": executable.hlo_modules()[0].to_string(),
        "memory": {name: getattr(memory, f"{name}_size_in_bytes") for name in names},
    }
    (folder / "answer.json").write_text(json.dumps(answer), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
