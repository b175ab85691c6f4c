"""What decides a captured program, as far as it can be known before the capture.

Whatever is left out here must not change what is captured: better one fact too many. What the
capture itself had to import is held to its files afterwards, see `gpuscope.kept.sources`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gpuscope
from gpuscope.document.plain import dumps
from gpuscope.kept import CACHE
from gpuscope.program.models.settings import WorkloadOptions

__all__ = ["Question", "Surroundings", "machine_of", "question_of"]

_DECIDE = (
    "ACCELERATE",
    "ATEN",
    "CUBLAS",
    "CUDA",
    "CUDNN",
    "DDP_",
    "FSDP",
    "GLOO",
    "GPUSCOPE",
    "GROUP_",
    "HF_",
    "HIP",
    "HUGGINGFACE",
    "LOCAL_",
    "MASTER_",
    "MKL",
    "NCCL",
    "NVIDIA",
    "OMP",
    "PYTHON",
    "PYTORCH",
    "RANK",
    "ROCM",
    "ROLE_",
    "TORCH",
    "TRANSFORMERS",
    "TRITON",
    "USE_",
    "WORLD_",
    "XDG_CACHE",
)
"""How the environment variables begin that PyTorch, transformers and we look at."""

_READ_BYTES = 64 * 2**20
"""A model's folder with more configuration than this is nobody's."""

Question = str
"""A digest: equal questions have one answer."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A process as it was before it imported anything of others, which may change both."""

    environment: dict[str, str]
    path: tuple[str, ...]


def question_of(
    workload: str,
    options: WorkloadOptions,
    ranks: tuple[int, int],
    strict: bool,
    around: Surroundings,
    about: Mapping[str, Any] | None = None,
    machine: str | None = None,
) -> Question | None:
    """Return what decides the program of a workload that was named; None where that is unknown.

    Args:
        workload: a built-in model's name, or the path of a `config.json` or its folder.
        options: as they were given, laid over the cluster.
        ranks: devices of the job, and of each of its nodes.
        strict: whether operators without a shape rule are refused.
        around: the process that captures it.
        about: what decides figures that follow from the program, as plain values.
        machine: what `machine_of` gave for this process; None: it is looked at now.
    """
    if workload.lower().endswith(".onnx"):  # reading it takes as long as its digest
        return None
    if options.module or options.arguments or workload.rpartition(":")[0].endswith(".py"):
        return None
    if workload.endswith(".py"):
        return None
    digest = hashlib.blake2b(digest_size=24)
    try:
        facts: dict[str, Any] = {
            "workload": workload,
            "options": asdict(options),
            "ranks": ranks,
            "strict": strict,
            "environment": _deciding(around.environment),
            "files": _configuration(workload),
        } | ({} if about is None else {"about": about})
        facts["machine"] = machine_of(around) if machine is None else machine
        digest.update(dumps(facts).encode())
    except (OSError, TypeError, ValueError):
        return None
    return digest.hexdigest()


def machine_of(around: Surroundings) -> str:
    """A digest of the interpreter, of what can be imported in it, of our own files.

    Raises:
        OSError: our own files cannot be looked at.
    """
    digest = hashlib.blake2b(digest_size=24)
    for line in _machine(around.path):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()


def _deciding(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may decide; where our own files are kept does not."""
    return {k: v for k, v in sorted(environment.items()) if k.startswith(_DECIDE) and k != CACHE}


def _configuration(workload: str) -> dict[str, str]:
    """Digests of a model's own files, where it is named by its path."""
    path = Path(workload)
    if path.is_dir():
        place = path
    elif workload.endswith(".json"):
        place = path.parent
    else:
        return {}
    found = {}
    size = 0
    for each in sorted(place.iterdir()):
        if each.suffix in (".json", ".py", ".txt", ".jinja", ".model") and each.is_file():
            size += each.stat().st_size
            if size > _READ_BYTES:
                raise ValueError("too much to read")
            found[str(each.resolve())] = hashlib.blake2b(each.read_bytes()).hexdigest()
    return found


def _machine(path: Sequence[str]) -> Iterator[str]:
    """This interpreter, what can be imported in it, our own files, and where it runs."""
    yield gpuscope.__version__
    yield sys.version
    yield sys.prefix
    yield f"{platform.node()} {platform.machine()} {os.cpu_count()}"
    yield str(os.path.exists("/dev/nvidiactl"))
    for folder in path:
        yield folder
        yield from _importable(folder or os.curdir)
    yield from _own_files(os.path.dirname(gpuscope.__file__))


def _importable(folder: str) -> Iterator[str]:
    """Names in a folder of `sys.path`: distributions with their versions, modules, packages."""
    try:
        with os.scandir(folder) as found:
            names = sorted(each.name for each in found)
    except OSError:  # a zip file, or nothing
        try:
            about = os.stat(folder)
            yield f"{about.st_size} {about.st_mtime_ns}"
        except OSError:
            yield "absent"
        return
    for name in names:
        _, dot, suffix = name.rpartition(".")
        if not dot or suffix in ("py", "so", "pyd", "pth", "dist-info", "egg-info", "egg-link"):
            yield name if name != "__pycache__" else ""


def _own_files(folder: str) -> Iterator[str]:
    """Every source and table of gpuscope, by its size and times: a checkout changes under us."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda each: each.name)
    for each in entries:
        if each.is_dir():
            if each.name not in ("__pycache__", "locale"):
                yield from _own_files(each.path)
        elif each.name.endswith((".py", ".toml")):
            about = each.stat()
            yield f"{each.path} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"
