"""cuBLAS' and cuDNN's older names: `ampere_sgemm_128x64_nn`, `volta_scudnn_128x64_relu_...`."""

from __future__ import annotations

import re

from gpuscope.document.text import Text
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import read_tokens
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_NAME = re.compile(
    r"(?:cudnn_)?(?:infer_|train_)?(?P<arch>maxwell|pascal|volta|turing|ampere|hopper)_(?P<rest>\w+)"
)
_ARCH = {"maxwell": 50, "pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "hopper": 90}
_TABLE = table("blas_legacy")


@reader(
    "ampere_sgemm_128x64_nn",
    "volta_scudnn_128x64_relu_interior_nn_v1",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn",
)
def read_blas_legacy(symbol: str) -> KernelName | None:
    """Read cuBLAS' and cuDNN's names that begin with an architecture's."""
    found = _NAME.fullmatch(symbol)
    if found is None:
        return None
    arch = Piece(found["arch"], "architecture", words.architecture(_ARCH[found["arch"]]))
    pieces, unread = read_tokens(found["rest"], (*_TABLE.rules, *table("cutlass").rules))
    convolution = "cudnn" in symbol
    library = "cuDNN" if convolution else "cuBLAS"
    what = Text("A matrix product of {library}.", library=library)
    if convolution:
        what = Text("A convolution of {library}.", library=library)
    tile = re.search(r"_(\d+)x(\d+)(?:_|$)", symbol)
    stages = re.search(r"stages_(\d+)x(\d+)", symbol)
    kind = re.search(r"_(gc|s|d|h|c|z|i)(?:gemm|cudnn)", symbol)
    shape = tuple(map(int, tile.groups())) if tile else ()
    return KernelName(
        symbol,
        Text("{library} (NVIDIA)", library=library),
        what,
        (arch, *pieces),
        unread,
        (*shape, int(stages[1])) if shape and stages else shape,
        int(stages[2]) if stages else None,
        words.bits_of(_TABLE.names["kind"][kind[1]]) if kind else None,
        source=Text("Not documented by NVIDIA; letters are those of BLAS."),
    )
