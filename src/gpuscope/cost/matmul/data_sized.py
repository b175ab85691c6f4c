"""Matrix products whose size the data decides, and what their first steps cost.

For products of 16-bit numbers on Hopper and newer devices cuBLAS has many kernels ("nvjet"), picks
one by the size, and CUDA loads each into the process when it is first launched (lazy loading, CUDA
C++ Programming Guide). Where a mask, a router or a length decides the size, as in a loop over
experts, every step brings new ones. Measured on an H200 (torch 2.11, cuBLAS 13.1,
`validation/recordings/h200/micro/data_sized.json`): three steps of eight layers of such a loop run
133 kernels of products with bfloat16 weights, and 19 in TF32. Three products of 160 sizes that the
process had not met take the host 2.5 ms on average in bfloat16 and 2.9 in float16 (1.2 to 1.3 for
the last forty), and 0.07 when the same sizes come again; in TF32 0.47 (0.18 in the median: the
first one took 24) and 0.13. The steps of the loop fall from 197 ms (the mean of the first ten) to
75 to 98 after eighty. A prediction is of the steps after that; its interval reaches to the steps
before.
"""

from __future__ import annotations

from gpuscope.cost.host.model import host_class
from gpuscope.document.text import Text
from gpuscope.hardware.device import Device
from gpuscope.program.types import Program, TensorSpec

__all__ = ["LATE_S", "TOLD", "late_s", "sized_by_data"]

TOLD = Text(
    "The data decides the size of matrix products here, and cuBLAS loads a kernel, for about 1 ms, "
    "when a new size needs one: the first hundred steps or so take longer than this."
)

LATE_S = 80e-6
"""Host seconds that such a product takes longer in the first hundred steps: from the twentieth to
the sixtieth step, the 384 products of the loop take 99 ms a step, and 68 in its quickest step."""

_SIXTEEN = ("bfloat16", "float16")
_FIRST_MAJOR = 9
"""Compute capability from which products of 16-bit numbers are "nvjet" kernels."""


def sized_by_data(program: Program) -> tuple[int, ...]:
    """Return the operators (their indices) that are products of 16-bit numbers sized by data.

    A size is followed from where the host reads how many elements are not zero (a mask that picks
    rows, `torch.where`), through all that is made of it and has that many rows.
    """
    if not any(op.sync == "nonzero" for op in program.ops):
        return ()
    sizes: dict[int, frozenset[int]] = {}
    found = []
    for op in program.ops:
        if op.sync == "nonzero":
            made = frozenset(shape[0] for shape in (t.shape for t in op.outputs) if shape)
        else:
            made = frozenset(n for t in op.inputs for n in _sizes(t, sizes))
            if made and _is_product(op.name) and op.inputs[-1].dtype in _SIXTEEN:
                found.append(op.index)
        for out in op.outputs:
            kept = made & frozenset(out.shape)
            if kept and out.storage >= 0:
                sizes[out.storage] = sizes.get(out.storage, frozenset()) | kept
    return tuple(found)


def late_s(program: Program, device: Device) -> float:
    """Host seconds by which the first hundred steps are longer (see `TOLD`); 0 where they are not.

    Args:
        program: one step.
        device: that runs it.
    """
    capability = device.compute_capability
    newer = capability is not None and capability[0] >= _FIRST_MAJOR
    if device.vendor != "NVIDIA" or not newer:
        return 0.0
    return LATE_S * sum(program.ops[index].repeat for index in sized_by_data(program))


def _sizes(tensor: TensorSpec, sizes: dict[int, frozenset[int]]) -> frozenset[int]:
    """Those of a tensor's dimensions that the data decided."""
    return sizes.get(tensor.storage, frozenset()) & frozenset(tensor.shape)


def _is_product(name: str) -> bool:
    return host_class(name) == "matmul"
