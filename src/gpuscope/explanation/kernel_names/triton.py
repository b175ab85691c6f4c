"""Kernels that `torch.compile` makes: `triton_poi_fused_add_gelu_3`.

The naming is Inductor's: pytorch/pytorch, torch/_inductor/codegen/triton.py and
torch/_inductor/utils.py (`get_fused_kernel_name`).
"""

from __future__ import annotations

import re

from gpuscope.document.text import Text, joined, verbatim
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_NAME = re.compile(r"triton_(?P<kind>poi|per|red|tem|for|mm|unk|spl|cooperative_red)_(?P<rest>\w+)")

_TABLE = table("triton")
_OPERATORS = tuple(sorted(_TABLE.raw["operators"], key=len, reverse=True))


@reader(
    "triton_poi_fused_add_gelu_3",
    "triton_per_fused__to_copy_add_native_layer_norm_view_2",
    "triton_red_fused__log_softmax_nll_loss_forward_1",
)
def read_triton(symbol: str) -> KernelName | None:
    """Read Inductor's names."""
    found = _NAME.fullmatch(symbol)
    if found is None:
        return None
    body, _, last = found["rest"].rpartition("_")
    number = last if last.isdigit() else ""
    listed = body if number else found["rest"]
    operators = _operators(listed.removeprefix("fused").removeprefix("_"))
    kind = _TABLE.words["kind"][found["kind"]]
    pieces = [
        Piece("triton", "library", Text("made by torch.compile (Inductor)")),
        Piece(found["kind"], "operation", kind),
    ]
    pieces += [Piece(op, "fused", verbatim(f"aten::{op}")) for op in operators]
    if number:
        meaning = Text("kernel {number} of its graph", number=number)
        pieces.append(Piece(number, "number", meaning))
    named = joined(operators) or Text("no named operator")
    return KernelName(
        symbol,
        Text("PyTorch Inductor (Triton)"),
        Text("A fused kernel of torch.compile, {kind}: {operators}.", kind=kind, operators=named),
        tuple(pieces),
        note=Text(
            "Inductor lists the operators in alphabetical order, each once, not in the order in "
            "which they run. TORCH_LOGS=output_code prints the source."
        ),
        source="pytorch/pytorch, torch/_inductor/codegen/triton.py, torch/_inductor/utils.py.",
    )


def _operators(text: str) -> list[str]:
    found = []
    while text:
        text = text if text.startswith(_OPERATORS) else text.lstrip("_")
        known = next((op for op in _OPERATORS if re.match(rf"{op}(?:_|$)", text)), None)
        operator = known or text.partition("_")[0]
        if operator:
            found.append(operator)
        text = text[len(operator) :].removeprefix("_")
    return found
