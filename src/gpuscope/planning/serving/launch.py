"""The line that starts a serving plan, with vLLM's and SGLang's options as documented."""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.planning.serving.types import ServingChoice

__all__ = ["FRAMEWORKS", "check_framework", "launch_line"]

FRAMEWORKS = ("vllm", "sglang")


def check_framework(framework: str) -> None:
    """Refuse one that is not known.

    Raises:
        UnknownNameError: no such framework.
    """
    if framework not in FRAMEWORKS:
        known = Text("Type one of: {names}.", names=", ".join(FRAMEWORKS))
        raise UnknownNameError(Text("framework"), framework, FRAMEWORKS, known)


def launch_line(model: str, choice: ServingChoice, framework: str) -> str:
    """A shell line, with a header that says by whom it was not checked.

    Args:
        model: as the user called it: put the weights' own name in its place.
        choice: what is started.
        framework: one of `FRAMEWORKS`.

    Raises:
        UnknownNameError: no such framework.
    """
    check_framework(framework)
    small = choice.dtype not in ("bfloat16", "bf16")
    packed = choice.kv_dtype.startswith("fp8")
    if framework == "vllm":
        parts = [f"vllm serve {model}", f"--tensor-parallel-size {choice.tp}"]
        parts += [f"--data-parallel-size {choice.replicas}"] if choice.replicas > 1 else []
        parts += [f"--max-num-batched-tokens {choice.max_tokens}"]
        parts += [f"--max-num-seqs {choice.max_sequences}"]
        parts += [f"--quantization {choice.dtype}"] if small else []
        parts += ["--kv-cache-dtype fp8"] if packed else []
    else:
        parts = [f"python -m sglang.launch_server --model-path {model}", f"--tp {choice.tp}"]
        parts += [f"--dp {choice.replicas}"] if choice.replicas > 1 else []
        parts += [f"--chunked-prefill-size {choice.max_tokens}"]
        parts += [f"--max-running-requests {choice.max_sequences}"]
        parts += [f"--quantization {choice.dtype}"] if small else []
        parts += ["--kv-cache-dtype fp8_e5m2"] if packed else []
    header = f"# gpuscope plan; not checked by {framework}'s own parser"
    return header + "\n" + " \\\n  ".join(parts)
