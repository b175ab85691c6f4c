"""The line that starts a serving plan, with vLLM's and SGLang's options.

The parsers of vLLM 0.27.1 and of SGLang 0.5.23 take what is written here
(`tests/planning/test_plan_launch.py`, where they are installed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.planning.frameworks import refuse_other_task
from gpuscope.planning.serving.splits import SPLITS
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
        apart: options, with their values, of a replica that works on prompts alone, and of one that
            makes answers; between: what sends requests to both.
        copies_experts: whether its replicas of a model with experts are copies: otherwise they
            share the experts.
    """

    start: str
    read_by: str
    names: tuple[str, str, str, str]
    kinds: Mapping[str, str]
    fp8_keys: str
    apart: tuple[Mapping[str, str], Mapping[str, str]]
    between: str
    copies_experts: bool


_NIXL = MappingProxyType(
    {"kv-transfer-config": '\'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''}
)
"""vLLM's way to move keys and values: which replica does what is up to the proxy in front."""

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
            (_NIXL, _NIXL),
            "vLLM's tests/v1/kv_connector/nixl_integration/toy_proxy_server.py, or your router",
            False,
        ),
        "sglang": _Server(
            "python -m sglang.launch_server --model-path",
            "SGLang 0.5.23",
            ("tp", "dp", "chunked-prefill-size", "max-running-requests"),
            {"fp8": "fp8", "fp8_block": "", **_STORED},
            "fp8_e5m2",
            ({"disaggregation-mode": "prefill"}, {"disaggregation-mode": "decode"}),
            "python -m sglang_router.launch_router --pd-disaggregation",
            True,
        ),
    }
)
"""By the name that `--for` takes."""

FRAMEWORKS = tuple(SERVERS)


def check_framework(framework: str) -> None:
    """Refuse one that is not known.

    Raises:
        UnknownNameError: no such framework.
        UnsupportedError: it starts no servers.
    """
    if framework not in FRAMEWORKS:
        refuse_other_task(framework, "serve")
        known = Text("Type one of: {names}.", names=", ".join(FRAMEWORKS))
        raise UnknownNameError(Text("framework"), framework, FRAMEWORKS, known)


def launch_line(model: str, choice: ServingChoice, framework: str, experts: bool = False) -> str:
    """A shell line, with a header that says whose parser takes such lines; where prompts have
    devices of their own, one for each sort of replica.

    Args:
        model: as the user called it: put the weights' own name in its place.
        choice: what is started.
        framework: one of `FRAMEWORKS`.
        experts: whether the model has any.

    Raises:
        UnknownNameError: no such framework.
        UnsupportedError: it cannot start such a server.
    """
    check_framework(framework)
    server = SERVERS[framework]
    header = f"# gpuscope plan; its options are those of {server.read_by}, whose parser takes them"
    groups: Sequence[tuple[str, int, Mapping[str, str]]] = [("", choice.replicas, {})]
    if choice.prefill:
        prompts, answers = server.apart
        groups = [("prompts", choice.prefill, prompts), ("answers", choice.replicas, answers)]
    lines = [header]
    for what, replicas, more in groups:
        line, times = _line(model, choice, framework, replicas, experts, more)
        told = [f"# {what}"] if what else []
        told += [f"# start it {times} times, each on devices of its own"] if times > 1 else []
        lines += [*told, line]
    lines += [f"# in front of both: {server.between}"] if choice.prefill else []
    return "\n".join(lines)


def _line(
    model: str,
    choice: ServingChoice,
    framework: str,
    replicas: int,
    experts: bool,
    more: Mapping[str, str],
) -> tuple[str, int]:
    """What starts so many replicas, or one, and how many times.

    A server's own replicas share what shares its data parallelism, and those that keys and values
    come to are told from each other by their address.
    """
    server = SERVERS[framework]
    split, copies, tokens, sequences = server.names
    alone = bool(more) or choice.value("dp") > 1 or (experts and not server.copies_experts)
    options = {split: str(choice.tp)}
    if replicas > 1 and not alone:
        options[copies] = str(replicas)
    for name, value in choice.splits:
        write = SPLITS.get(name).write.get(framework)
        if write is None:
            raise UnsupportedError(
                Text("{server} cannot start what has {name} {value}.", server=server.read_by,
                     name=name, value=value),
                "",
                Text("Type one of: {names}.", names=", ".join(SPLITS.get(name).write)),
            )  # fmt: skip
        options |= write(choice, value)
    options |= {tokens: str(choice.max_tokens), sequences: str(choice.max_sequences)}
    weights = quantization(choice.dtype, choice.cluster.device).name
    options |= {"dtype": "float16"} if weights == "float16" else {}
    kind = server.kinds.get(weights)
    options |= {"quantization": kind} if kind else {}
    options |= {"kv-cache-dtype": server.fp8_keys} if choice.kv_dtype.startswith("fp8") else {}
    parts = [f"{server.start} {model}"]
    parts += [f"--{name} {value}".rstrip() for name, value in {**options, **more}.items()]
    return " \\\n  ".join(parts), replicas if alone else 1
