"""The line that starts a serving plan, with vLLM's and SGLang's options.

The parsers of vLLM 0.27.1 and of SGLang 0.5.23 take what is written here
(`tests/planning/test_plan_launch.py`, where they are installed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.planning.serving.types import ServingChoice
from gpuscope.serving.quantization import quantization

__all__ = ["FRAMEWORKS", "check_framework", "launch_line"]


@dataclass(frozen=True, slots=True)
class _Server:
    """How a server calls what a plan decides.

    Attributes:
        start: before the model's name.
        read_by: whose parser the tests ask.
        names: options for tensor parallelism, replicas, tokens and sequences of an iteration.
        kinds: `--quantization` by our name of the weights; "" where the checkpoint says it itself.
        fp8_keys: `--kv-cache-dtype` of keys and values in 8 bits.
    """

    start: str
    read_by: str
    names: tuple[str, str, str, str]
    kinds: Mapping[str, str]
    fp8_keys: str


_STORED = {"fp4": "modelopt_fp4", "mxfp4": "mxfp4", "int4": "awq"}
"""Weights of four bits come from a checkpoint, whose tool decides the name: the commonest."""

SERVERS: Mapping[str, _Server] = MappingProxyType(
    {
        "vllm": _Server(
            "vllm serve",
            "vLLM 0.27.1",
            (
                "tensor-parallel-size",
                "data-parallel-size",
                "max-num-batched-tokens",
                "max-num-seqs",
            ),
            {"fp8": "fp8", "fp8_block": "fp8_per_block", **_STORED},
            "fp8",
        ),
        "sglang": _Server(
            "python -m sglang.launch_server --model-path",
            "SGLang 0.5.23",
            ("tp", "dp", "chunked-prefill-size", "max-running-requests"),
            {"fp8": "fp8", "fp8_block": "", **_STORED},
            "fp8_e5m2",
        ),
    }
)
"""By the name that `--for` takes."""

FRAMEWORKS = tuple(SERVERS)


def check_framework(framework: str) -> None:
    """Refuse one that is not known.

    Raises:
        UnknownNameError: no such framework.
    """
    if framework not in FRAMEWORKS:
        known = Text("Type one of: {names}.", names=", ".join(FRAMEWORKS))
        raise UnknownNameError(Text("framework"), framework, FRAMEWORKS, known)


def launch_line(model: str, choice: ServingChoice, framework: str) -> str:
    """A shell line, with a header that says whose parser takes such lines.

    Args:
        model: as the user called it: put the weights' own name in its place.
        choice: what is started.
        framework: one of `FRAMEWORKS`.

    Raises:
        UnknownNameError: no such framework.
    """
    check_framework(framework)
    server = SERVERS[framework]
    weights = quantization(choice.dtype, choice.cluster.device).name
    split, replicas, tokens, sequences = server.names
    parts = [f"{server.start} {model}", f"--{split} {choice.tp}"]
    parts += [f"--{replicas} {choice.replicas}"] if choice.replicas > 1 else []
    parts += [f"--{tokens} {choice.max_tokens}", f"--{sequences} {choice.max_sequences}"]
    parts += ["--dtype float16"] if weights == "float16" else []
    kind = server.kinds.get(weights)
    parts += [f"--quantization {kind}"] if kind else []
    parts += [f"--kv-cache-dtype {server.fp8_keys}"] if choice.kv_dtype.startswith("fp8") else []
    header = f"# gpuscope plan; its options are those of {server.read_by}, whose parser takes them"
    return header + "\n" + " \\\n  ".join(parts)
