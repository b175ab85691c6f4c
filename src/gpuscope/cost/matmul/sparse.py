"""Products of a sparse matrix and a dense one: cuSPARSE gathers a dense row for each value.

A compressed matrix (CSR) is divided evenly among the blocks (`csrmm_alg2`); one of places and
values (COO) is given to the slower `csrmm_alg1`, its places compressed before and dense matrices
turned around (aten/src/ATen/native/sparse/cuda/SparseBlasImpl.cpp, SparseCUDABlas.cpp). Rates: five
recorded calls of an H200 (validation/recordings/h200/functions.jsonl.gz, "sparse").
"""

from __future__ import annotations

from gpuscope.cost.bandwidth import Launch, kernel, timed
from gpuscope.cost.copy.model import fill_kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel


@kernel_model("aten::mm.sparse", "aten::_sparse_addmm.sparse", "aten::addmm.sparse")
def sparse_product(work: Work) -> tuple[Kernel, ...]:
    """What is prepared, and the product."""
    found = [at for at, spec in enumerate(work.op.inputs) if len(spec.shape) == 1]
    if not found or not work.outputs or not work.outputs[0].numel:
        return ()
    values, out = work.op.inputs[found[0]], work.outputs[0]
    dense = work.op.inputs[-1]
    compressed = bool(work.op.args.get("compressed"))
    get = work.constants.value
    gathered = float(values.numel) * out.shape[-1] * out.itemsize
    share = get("sparse.compressed_of_bandwidth" if compressed else "sparse.places_of_bandwidth")
    rate = share * work.device.memory_bandwidth_bytes_per_s
    main = timed(
        work, "csrmm", "matmul", get("sparse.least_s") + gathered / rate, out.shape[0], 256
    )
    small = timed(work, "csr_partition", "matmul", get("sparse.prepared_s"), 1, 256)
    scaled = _moved(work, "matrix_scalar_multiply", float(out.nbytes))
    cleared = fill_kernel(work, out)
    if compressed:
        return cleared, scaled, small, main
    turned = _moved(work, "copy_strided", float(dense.nbytes))
    back = _moved(work, "copy_strided", float(out.nbytes))
    first = (cleared,) if work.op.name == "aten::mm.sparse" else ()
    return *first, small, small, small, cleared, turned, small, scaled, main, back


def _moved(work: Work, name: str, size: float) -> Kernel:
    launch = Launch(name, "copy", hot_bytes=size, written_bytes=size, dtype=work.outputs[0].dtype)
    return kernel(work, launch)
