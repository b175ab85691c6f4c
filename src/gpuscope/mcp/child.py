"""What runs code of the user's, in a process of its own: the server outlives it, and sees edits.

python -m gpuscope.mcp.child FILE      a request on standard input; the answer goes into FILE
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gpuscope import children
from gpuscope.document.plain import Json, plain, utf8
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, WorkloadError

if TYPE_CHECKING:
    from gpuscope.program.models.settings import WorkloadOptions

LONGEST_S = 1800.0
"""A request that takes longer is given up."""


def ask(work: str, **arguments: Any) -> Json:
    """Have something done in a process of its own.

    Args:
        work: a name of `WORK`.
        arguments: its own, as plain values.

    Returns:
        What it answered, as plain values.

    Raises:
        WorkloadError: it failed, crashed or took too long; with the child's own words.
    """
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        out = Path(folder) / "answer.json"
        try:
            done = subprocess.run(
                children.python("gpuscope.mcp.child", str(out)),
                input=msgspec.json.encode([work, arguments]),
                stdout=subprocess.DEVNULL,  # what the user's code prints is nobody's here
                stderr=subprocess.PIPE,
                env=children.environment(),
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise WorkloadError(
                Text("It took longer than {seconds} s.", seconds=int(LONGEST_S))
            ) from None
        if not out.exists():
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
            raise WorkloadError(
                Text("The process ended with code {code}.", code=done.returncode), " ".join(last)
            )
        answer: Json = msgspec.json.decode(out.read_bytes())
    if "error" in answer:
        raise WorkloadError(*answer["error"])
    return answer


def _predict(workload: str, on: str, options: WorkloadOptions, overrides: Json) -> Json:
    from gpuscope import api
    from gpuscope.run.document import run_document

    return run_document(api.predict(workload, on, options=options, overrides=overrides or None))


def _advise(workload: str, on: str, options: WorkloadOptions, only: list[str]) -> Json:
    from gpuscope.advice.forecast.advise import advise
    from gpuscope.mcp.digests import advice_digest

    found = advise(workload, on, options=options, only=tuple(only))

    def forecast(each: Any) -> Json:
        return {name: plain(getattr(each, name)) for name in _FORECAST}

    document = {
        "objective": found.objective,
        "singles": [forecast(each) for each in found.singles],
        "path": [forecast(each) for each in found.path],
        "refused": [{"name": each.name, "why": str(each.fit.why)} for each in found.refused],
        "notes": plain(found.notes),
    }
    return {"digest": plain(advice_digest("", found)), "document": document}


_FORECAST = (
    "names", "effect", "why", "speedup", "low", "high", "step_time_s", "peak_memory_bytes",
    "energy_j", "price",
)  # fmt: skip


def _optimize(
    workload: str, options: WorkloadOptions, only: list[str], device: str, budget_s: float, out: str
) -> Json:
    from gpuscope.advice.trial.optimize import optimize
    from gpuscope.mcp.digests import ladder_digest

    ladder = optimize(
        workload,
        options=options,
        only=tuple(only),
        device=device or None,
        budget_s=budget_s,
        out=out or None,
    )
    document = plain(ladder)
    document.pop("advice", None)
    for trial in document["trials"]:
        trial.pop("forecast", None)
    return {"digest": plain(ladder_digest("", ladder)), "document": document}


WORK: dict[str, Callable[..., Json]] = {
    "predict": _predict,
    "advise": _advise,
    "optimize": _optimize,
}


def main() -> None:
    """Do what is asked for on standard input."""
    from gpuscope.program.models.settings import WorkloadOptions

    given = sys.stdin.buffer.read()
    if not given or len(sys.argv) != 2:
        raise SystemExit(2)
    work, arguments = msgspec.json.decode(given)
    arguments["options"] = WorkloadOptions(**arguments["options"])
    try:
        answer = WORK[work](**arguments)
    except GpuscopeError as error:
        answer = {"error": [str(error.what), str(error.why), str(error.next_step)]}
    from gpuscope.document.plain import dumps

    Path(sys.argv[1]).write_bytes(utf8(dumps(answer)))


if __name__ == "__main__":
    main()
