"""How devices share a model: what cannot be, and what the fullest stage of a pipeline holds."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.hardware import Cluster
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.engine import Engine
from gpuscope.serving.iteration import stage_layers
from gpuscope.serving.speculation import Guess

_BATCHES = ("static", "triton")


def fullest_stage(size: TransformerSize, pp: int) -> TransformerSize:
    """The model that a stage with most layers holds: of embedding and output layer one.

    An engine takes as many blocks as the stage with the least room for them.
    """
    if pp == 1:
        return size
    return replace(size, layers=max(stage_layers(size.layers, pp)), tied=True)


def check_stages(
    model: str, size: TransformerSize, engine: Engine, pp: int, dp: int, guess: Guess | None
) -> None:
    """Refuse what is not modelled, or cannot be.

    Args:
        model, size: what is served.
        engine: by whom.
        pp, dp: stages, and groups that attend apart.
        guess: how tokens are drafted.

    Raises:
        InvalidValueError: more stages than layers.
        UnsupportedError: beside what else stages are not modelled.
    """
    if pp > size.layers:
        raise InvalidValueError(
            Text("The {layers} layers of {model} do not fill {pp} stages.", layers=size.layers,
                 model=model, pp=pp),
            "",
            Text("Give a smaller --pp."),
        )  # fmt: skip
    if engine.scheduler in _BATCHES:
        raise UnsupportedError(
            Text("{engine} has no stages.", engine=engine.called),
            "",
            Text("Type: --engine vllm, sglang or tensorrt-llm"),
        )
    if dp > 1 or guess is not None:
        raise UnsupportedError(
            Text("Stages beside drafted tokens or attention in data parallel are not modelled."),
            "",
            Text("Leave out --pp, or the other."),
        )


def check_split(
    model: str,
    size: TransformerSize,
    cluster: Cluster,
    tp: int,
    ep: int,
    dp: int,
    replicas: int,
    pp: int,
) -> None:
    """Refuse devices, heads or experts that cannot be shared so.

    Args:
        model, size, cluster: what is served, on what.
        tp, ep, dp, replicas, pp: how (`simulate.deploy`).

    Raises:
        InvalidValueError: says what could be.
    """
    if tp < 1 or (dp == 1 and size.heads % tp):
        raise InvalidValueError(
            Text("--tp {tp} does not divide the {heads} heads of {model}.", tp=tp,
                 heads=size.heads, model=model),
            "",
            Text("Type one of: {ways}", ways=", ".join(
                str(n) for n in (1, 2, 4, 8, 16, 32) if size.heads % n == 0)),
        )  # fmt: skip
    wanted = tp * pp * replicas
    if replicas < 1 or wanted > cluster.n_devices:
        raise InvalidValueError(
            Text(
                "{wanted} devices are needed ({replicas} x {tp}), and the target has {count}.",
                wanted=wanted,
                replicas=replicas,
                tp=tp * pp,
                count=cluster.n_devices,
            ),
            "",
            Text("Type: --on {count}x{device}", count=wanted, device=cluster.device.id),
        )
    if ep < 1 or tp % ep or (size.experts is not None and size.experts.count % ep):
        raise InvalidValueError(
            Text("--ep {ep} does not share the experts of {model} evenly.", ep=ep, model=model),
            "",
            Text("Choose one that divides --tp and the number of experts."),
        )
