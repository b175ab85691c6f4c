"""Which task each framework starts: `--for vllm` beside a training names both, and what to type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

__all__ = ["refuse_other_task"]


def refuse_other_task(framework: str, task: str) -> None:
    """Refuse a framework that starts another task; one that is not known is no matter of tasks.

    Args:
        framework: as `--for` takes it.
        task: "train", "finetune" or "serve".

    Raises:
        UnsupportedError: with the frameworks of this task, and the tasks of this framework.
    """
    known = _known()
    others = [other for other, names in known.items() if framework in names]
    if framework in known[task] or not others:
        return
    raise UnsupportedError(
        Text("--for {name} does not go with --task {task}.", name=framework, task=task),
        Text("{name} starts what --task {task} plans.", name=framework, task=others[0]),
        Text(
            "After --for type one of: {names}. Or type: --task {task} --for {name}",
            names=", ".join(sorted(known[task])),
            task=others[0],
            name=framework,
        ),
    )


def _known() -> Mapping[str, Sequence[str]]:
    """Names by task."""
    from gpuscope.planning.serving.launch import SERVERS
    from gpuscope.planning.tuning.launch import FRAMEWORKS
    from gpuscope.planning.writers import WRITERS

    return {"train": WRITERS.names(), "finetune": tuple(FRAMEWORKS), "serve": tuple(SERVERS)}
