"""What rows run, captured once and kept: no device and no constant is in a capture.

Kept in `validation/.cache/published` by what was asked and by the sources of `gpuscope.program`,
so that rows of other devices, and a run after constants alone have changed, capture nothing anew.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.program.pipeline.job_programs import PipelineBlocks
    from gpuscope.program.types import Program
    from gpuscope.program.world import RankPrograms
    from published.express import Expressed

ANY = os.environ.get("PUBLISHED_CAPTURES") == "any"
"""Take captures that other sources made: for those who know that a change does not touch them."""

FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "published"


def step_of(made: Expressed) -> Program | RankPrograms:
    """The step of every distinct rank of a job without a pipeline, or of one device.

    Raises:
        GpuscopeError: it cannot be captured.
    """
    from gpuscope.capturing import capture_job

    cluster = made.machine.cluster(made.devices)
    return _kept(_asked(made), lambda: capture_job(made.workload, cluster, made.options))


def pipeline_of(made: Expressed) -> PipelineBlocks:
    """The blocks of a pipeline's stages: equal for any number of microbatches.

    Raises:
        GpuscopeError: it cannot be captured.
    """
    from gpuscope.program.pipeline.job_programs import capture_pipeline
    from gpuscope.program.workload import resolve

    plan = made.options.parallel
    assert plan is not None
    cluster = made.machine.cluster(made.devices)

    def capture() -> PipelineBlocks:
        job = resolve(made.workload, made.options, load=False).job
        return capture_pipeline(job, local_size=cluster.devices_per_node)

    return _kept(_asked(made), capture)


def sources(folders: Iterable[str]) -> str:
    """A digest of the sources and tables in these parts of gpuscope."""
    import gpuscope

    root, digest = Path(gpuscope.__file__).parent, hashlib.blake2b(digest_size=6)
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".po", ".mo"):
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _program() -> str:
    import torch

    return f"{sources(['program'])} {torch.__version__}"


def _asked(made: Expressed) -> str:
    nodes = made.machine.cluster(made.devices).devices_per_node
    asked = _set(made.workload), made.devices, nodes, _set(made.options)
    return hashlib.blake2b(repr(asked).encode(), digest_size=16).hexdigest()


def _set(value: object) -> object:
    """What differs from its default, in all depths: a field that is added later changes no name."""
    if not is_dataclass(value):
        return value
    own = [(each, getattr(value, each.name)) for each in fields(value)]
    return type(value).__name__, [(f.name, _set(v)) for f, v in own if v != f.default]


def _kept(name: str, capture: Callable[[], Any]) -> Any:
    from gpuscope.atomic import write_atomically

    path = FOLDER / f"{name}.pickle"
    if path.exists():
        by, found = pickle.loads(path.read_bytes())
        if ANY or by == _program():
            return found
    found = capture()
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_atomically(path, pickle.dumps((_program(), found), pickle.HIGHEST_PROTOCOL))
    return found
