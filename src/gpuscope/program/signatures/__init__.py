"""What a recorded operator call makes: outputs and options from the shapes that a trace holds.

Traces record an operator's inputs only, under the name of its innermost implementation
(`aten::cudnn_convolution`, `aten::_flash_attention_forward`). A rule for each family says what
comes out and gives the call the name, inputs and options that a captured program would have, so
that one cost model serves both. Schemas are those of PyTorch's native_functions.yaml.
"""

from gpuscope.program.signatures.complete import complete, known
from gpuscope.program.signatures.convolution import forward_sized, output_sizes

__all__ = ["complete", "forward_sized", "known", "output_sizes"]
