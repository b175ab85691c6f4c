"""An existing plan from a file: any of `gpuscope.planning.readers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, UnsupportedError
from gpuscope.hardware import Cluster
from gpuscope.outside.plain import file_bytes
from gpuscope.planning.dimensions.registry import DIMENSIONS, lacking, unlike
from gpuscope.planning.readers.registry import AGAIN, found
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import ParallelOptions

__all__ = ["existing", "only", "text_of"]


def existing(question: Question, path: Path) -> tuple[Question, Candidate]:
    """The plan of a file, and the question with the file's batch and length.

    Args:
        question: for one number of one device.
        path: the file.

    Raises:
        InputFileError: no such file, or it is no plan of a kind that can be read.
        UnknownNameError: a key that no plan has.
        InvalidValueError: numbers that cannot be, or devices still to choose from.
        UnsupportedError: what a plan here, or this device, cannot have.
    """
    cluster = only(question.clusters)
    text = text_of(path)
    told = found(text).read(text, cluster.n_devices, path)
    batch, seq = told.global_batch or question.global_batch, told.seq or question.seq
    asked = ParallelOptions(
        world=cluster.n_devices, node=cluster.devices_per_node, global_batch=batch, **told.layout
    )
    each = Candidate(cluster, plan_of(question.size, seq, asked), told.more)
    plan_of(question.size, seq, each.asked)  # a cut of stages, too
    lacks = [
        lacking(DIMENSIONS.get(n), v, question.size, cluster.device) for n, v in each.more
    ]  # fmt: skip
    why = next((lack for lack in lacks if lack is not None), unlike(each.plan, each.more))
    if why is not None:
        raise UnsupportedError(
            why, Text("{path} asks for it.", path=path), Text("Name another device: --on h200")
        )
    return replace(question, global_batch=batch, seq=seq, tries=_tried(question, each)), each


def _tried(question: Question, each: Candidate) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What neighbours choose beside their layout: as usual, and as the plan does."""
    tries = dict(question.tries)
    for name, value in each.more:
        usual = DIMENSIONS.get(name).values[0]
        tries[name] = tuple(dict.fromkeys((usual, value, *tries.get(name, ()))))
    return tuple(tries.items())


def only(clusters: Sequence[Cluster]) -> Cluster:
    """What an existing plan is judged on.

    Raises:
        InvalidValueError: devices still to choose from.
    """
    if len(clusters) != 1:
        raise InvalidValueError(
            Text("An existing plan is judged on one number of one device."),
            Text("{count} were named.", count=len(clusters)),
            Text("Type for example: --on h200 --devices 8"),
        )
    return clusters[0]


def text_of(path: Path) -> str:
    """What a file says.

    Raises:
        InputFileError: it cannot be read, or is no text.
    """
    cannot = Text("{path} cannot be read.", path=path)
    try:
        return file_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise InputFileError(cannot, Text("It is no text in UTF-8."), AGAIN) from None
    except (OSError, ValueError) as error:  # a name that no file can have, and broken gzip, too
        why = f"{getattr(error, 'strerror', None) or error}."
        raise InputFileError(cannot, why, AGAIN) from None
