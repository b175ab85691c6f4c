"""Two collectives at once on the same two ranks: recorded, and as `gpuscope.cost.overlap` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "validation" / "recordings" / "h200" / "overlap-2-two.jsonl"

Found = dict[str, Any]


def rows() -> list[Found]:
    """Each pair: how many times longer either takes than alone, measured and predicted."""
    from gpuscope.hardware import calibration_for, parse_target
    from gpuscope.timeline.contention import DeviceOverlap

    cluster = parse_target("2xh200")
    constants = calibration_for(cluster.device)
    overlap = DeviceOverlap.of(cluster.device, constants)
    found = []
    for part in map(json.loads, RECORDED.read_text().splitlines()):
        if part["part"] != "two":
            continue
        kernels = [_kernel(name, part["bytes"], cluster, constants) for name in part["operations"]]
        found.append(
            {
                "operations": part["operations"],
                "bytes": part["bytes"],
                "measured": [
                    both / alone
                    for both, alone in zip(part["both_s"], part["alone_s"], strict=True)
                ],
                "predicted": [overlap.of_collectives(kernels[n], [kernels[1 - n]]) for n in (0, 1)],
            }
        )
    return found


def _kernel(operation: str, size_bytes: float, cluster: Any, constants: Any) -> Any:
    """The collective's kernel, as the cost models make it."""
    from gpuscope.cost.engine import cost_program
    from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec

    name, given, taken = {
        "all_reduce": ("c10d::allreduce_", 1.0, 1.0),
        "all_gather": ("_c10d_functional::all_gather_into_tensor", 0.5, 1.0),
        "reduce_scatter": ("_c10d_functional::reduce_scatter_tensor", 1.0, 0.5),
        "all_to_all": ("c10d::alltoall_base_", 1.0, 1.0),
    }[operation]
    specs = [
        TensorSpec((int(share * size_bytes) // 2,), (1,), "bfloat16", "device", storage)
        for storage, share in enumerate((given, taken))
    ]
    op = Op(0, name, inputs=(specs[0],), outputs=(specs[1],), group=0)
    program = Program("pair", (op,), groups=(ProcessGroup("0", "dp", (0, 1)),), world_size=2)
    costed = cost_program(
        program, cluster.device, cluster=cluster, calibration=constants, strict=True
    )
    return costed.ops[0].kernels[0]
