"""Whether a replica's devices can attend to requests in groups, and share the experts."""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.engine import Engine
from gpuscope.serving.speculation import Guess

_BATCHES = ("static", "triton")


def check_apart(
    model: str, size: TransformerSize, engine: Engine, tp: int, dp: int, guess: Guess | None
) -> None:
    """Refuse what engines do not do so.

    Args:
        model, size: what is served.
        engine: by whom.
        tp, dp: devices of a replica, and groups of them.
        guess: how tokens are drafted.

    Raises:
        InvalidValueError: groups that cannot be.
        UnsupportedError: no experts to share, no such engine, or drafts.
    """
    if tp % dp:
        raise InvalidValueError(
            Text("--attention-dp {dp} does not divide --tp {tp}.", dp=dp, tp=tp),
            Text("It counts groups of the devices of a replica."),
            Text(
                "Type one of: {ways}",
                ways=", ".join(str(n) for n in range(1, tp + 1) if not tp % n),
            ),
        )
    if size.heads % (tp // dp):
        raise InvalidValueError(
            Text("{heads} heads of {model} cannot be shared by {tp} devices.", heads=size.heads,
                 model=model, tp=tp // dp),
            "",
            Text("Type: --tp {tp} --attention-dp {tp}", tp=tp),
        )  # fmt: skip
    if size.experts is None:
        raise UnsupportedError(
            Text("{model} has no experts to share.", model=model),
            Text("Without them devices that attend to requests of their own are replicas."),
            Text("Type: --tp {tp} --replicas {dp}", tp=tp // dp, dp=dp),
        )
    if engine.scheduler in _BATCHES:
        raise UnsupportedError(
            Text("{engine} has no attention in data parallel.", engine=engine.called),
            "",
            Text("Type: --engine vllm, sglang or tensorrt-llm"),
        )
    if guess is not None:
        raise UnsupportedError(
            Text("Drafted tokens beside attention in data parallel are not modelled."),
            "",
            Text("Leave out --speculate or --attention-dp."),
        )
