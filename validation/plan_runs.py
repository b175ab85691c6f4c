"""Plans of training on two GPUs: predicted first, measured after, held against each other.

    python validation/plan_runs.py predict                 # no GPU: results/plan_runs.json
    python validation/plan_runs.py measure --out DIR       # two GPUs: DIR/plan_runs.jsonl

Each question is a model, a batch and a sequence; its plans are spread evenly over the planner's
order, with its own choice and those nearest to the memory's limit. What does not fit is run, too:
that it runs out of memory is a result. A plan runs in fresh processes, so that its memory is its
own. Nothing is tuned on these runs.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src")]

if TYPE_CHECKING:
    from gpuscope.planning.types import Judged, Question

PREDICTED = HERE / "results" / "plan_runs.json"
MEASURED = HERE / "results" / "plan_runs_h200.jsonl"

DEVICES = ("h100", "h200")
RANKS = 2
SPREAD = 4
"""Plans of a question that are spread over the planner's order."""

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: a model, sequences of a step, tokens of a sequence."""

    model: str
    global_batch: int
    seq: int

    @property
    def name(self) -> str:
        """As it is told."""
        return f"{self.model}-{self.global_batch}x{self.seq}"


QUESTIONS = (
    Asked("llama-3.2-1b", 16, 2048),
    Asked("llama-3.2-3b", 8, 4096),
    Asked("llama-3.1-8b", 4, 4096),
    Asked("gpt2-xl", 32, 1024),
    Asked("gpt2-medium", 64, 1024),
    Asked("qwen3-1.7b", 8, 4096),
)
SCRIPTS = (
    ("llama-3.2-1b-16x2048", "dp 2, fsdp full, microbatch 8"),
    ("qwen3-1.7b-8x4096", "dp 2, fsdp zero1, microbatch 1, recompute selective"),
)
"""Plans that are also run as the script that `--for fsdp2` writes: question and words."""


# -- before ----------------------------------------------------------------------------------------


def predict() -> None:
    """Choose and predict the plans of each question, on each device."""
    lines: list[Line] = []
    for asked in QUESTIONS:
        lines += _predicted(asked)
        PREDICTED.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
        print(f"{asked.name}: {len(lines)} lines", flush=True)


def _predicted(asked: Asked) -> list[Line]:
    from gpuscope.planning.search import search
    from gpuscope.planning.simulate import Simulator
    from gpuscope.planning.types import Candidate

    questions = {on: _question(asked, on) for on in DEVICES}
    simulators = {on: Simulator(question) for on, question in questions.items()}
    first = simulators[DEVICES[0]]
    chosen = {on: search(question).best.candidate for on, question in questions.items()}
    plans = _plans(questions, [each.plan for each in chosen.values()])
    found = []
    for plan in plans:
        line: Line = {"question": asked.name, **asdict(asked), "plan": asdict(plan), "on": {}}
        for on, question in questions.items():
            cluster = question.clusters[0]
            simulators[on]._captured = first._captured  # one recording serves both
            judged = simulators[on].judge(Candidate(cluster, plan), 0.0)
            line["words"] = judged.candidate.words
            line["on"][on] = {**_figures(judged), "chosen": plan == chosen[on].plan}
        found.append(line)
    return found


def _question(asked: Asked, on: str) -> Question:
    from gpuscope.hardware import parse_target
    from gpuscope.planning.question import size_of
    from gpuscope.planning.types import Question

    return Question(
        model=asked.model,
        size=size_of(asked.model),
        clusters=(parse_target(f"{RANKS}x{on}"),),
        global_batch=asked.global_batch,
        seq=asked.seq,
        simulated=6,
    )


def _figures(judged: Judged) -> Line:
    names = ("step_s", "low_s", "high_s", "peak_bytes", "usable_bytes", "fits")
    return {name: getattr(judged, name) for name in names}


def _plans(questions: dict[str, Question], chosen: Sequence[Any]) -> list[Any]:
    """The chosen ones, some over the whole order, and the nearest to each device's limit."""
    from gpuscope.planning.score import score
    from gpuscope.planning.space import candidates

    plans = list(dict.fromkeys(chosen))
    for question in questions.values():
        listed = [each for each in candidates(question)[0] if each.plan.pp == 1]
        scores = score(question, listed)
        usable = question.clusters[0].device.memory_usable_bytes
        order = sorted(range(len(listed)), key=lambda n: float(scores.estimate_s[n]))
        spread = [order[n * (len(order) - 1) // (SPREAD - 1)] for n in range(SPREAD)]
        near = sorted(order, key=lambda n: abs(float(scores.estimate_bytes[n]) / usable - 1))[:2]
        plans += [listed[n].plan for n in (*spread, *near)]
    return list(dict.fromkeys(plans))


# -- on the devices --------------------------------------------------------------------------------


def measure(out: Path, budget_s: float, limit_s: float) -> None:
    """Run the generated scripts, then every predicted plan that has no line yet."""
    import torch

    import gpuscope.program.models.parallel.build  # noqa: F401 - before the processes are made

    out.mkdir(parents=True, exist_ok=True)
    path = out / "plan_runs.jsonl"
    done = {_key(line) for line in _lines(path)}
    began, start = time.monotonic(), _start()
    lines = _rounds(json.loads(PREDICTED.read_text(encoding="utf-8")))
    if torch.cuda.device_count():  # of their full size: nothing for a processor
        for line in lines:
            if _key(line) in SCRIPTS:
                script(line, out)
    for number, line in enumerate(lines):
        if _key(line) in done:
            continue
        if time.monotonic() - began > budget_s:
            print("no time for the rest", flush=True)
            return
        work = functools.partial(_rank, line, path)
        failed = start(": ".join(_key(line)), work, RANKS, 29600 + number, limit_s)
        if failed and _key(line) not in {_key(each) for each in _lines(path)}:
            _write(path, {**_named(line), "outcome": "failed", "ranks": failed})
    print(torch.__version__, f"{time.monotonic() - began:.0f} s", flush=True)


def _rounds(lines: Sequence[Line]) -> list[Line]:
    """The quickest plan of each question, then the next: what is cut off decides no choice."""
    places: dict[str, int] = {}
    order = []
    for line in sorted(lines, key=lambda line: line["on"][DEVICES[0]]["step_s"]):
        places[line["question"]] = places.get(line["question"], 0) + 1
        order.append((places[line["question"]], len(order), line))
    return [line for _, _, line in sorted(order, key=lambda each: each[:2])]


def _start() -> Any:
    """`start` of `validation/distributed/measure.py`."""
    spec = spec_from_file_location("ranks", HERE / "distributed" / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.start


def _rank(line: Line, path: Path, rank: int) -> None:
    """One rank's part of a plan; rank 0 writes, and whoever runs out of memory."""
    import torch
    import torch.distributed as dist

    from gpuscope.program.models.parallel.build import build_rank

    cuda = torch.cuda.is_available()
    try:
        step = build_rank(_job(line, "cuda" if cuda else "cpu"))
        firsts = [_timed(step, 1, cuda) for _ in range(2)]
        if cuda:
            gc.collect()
            torch.cuda.reset_peak_memory_stats()
        expected_s = line["on"][DEVICES[0]]["step_s"]  # the same on every rank
        block = max(1, min(5, int(1.0 / expected_s))) if cuda else 1
        times = [_timed(step, block, cuda) for _ in range(3 if cuda and expected_s < 3 else 1)]
    except torch.OutOfMemoryError as error:
        _write(path, {**_named(line), "outcome": "out of memory", "said": str(error)[:300]})
        raise
    most = torch.tensor([statistics.median(times), 0.0, 0.0], dtype=torch.float64)
    if cuda:
        most[1:] = torch.tensor(
            [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
        )
        most = most.cuda()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    if rank == 0:
        step_s, peak, reserved = most.tolist()
        found = {"step_s": step_s, "blocks_s": times, "first_steps_s": firsts}
        found |= {"peak_bytes": int(peak), "reserved_bytes": int(reserved)}
        device = torch.cuda.get_device_name() if cuda else "cpu"
        _write(path, {**_named(line), "outcome": "ran", **found, "device": device})
        print(f"{line['question']}: {line['words']}: {step_s * 1e3:.2f} ms", flush=True)
    dist.barrier()


def _timed(step: Any, steps: int, cuda: bool) -> float:
    """Seconds a step, of so many in a row between two waits for the device."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    if cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - begun) / steps


def _job(line: Line, device: str) -> Any:
    """The job of a line; on a processor narrow, to try the script."""
    from gpuscope.program.models import find
    from gpuscope.program.models.parallel.options import Job, Parallelism, Software

    size: Any = find(line["model"]).size
    size, tokens = size(), line["seq"]
    if device == "cpu":
        narrow = {"hidden": 64, "heads": 8, "kv_heads": 8, "head": 8, "ffn": 64}
        size, tokens = replace(size.deep(2), vocabulary=128, **narrow), 32
    return Job(
        size=size,
        plan=Parallelism(**line["plan"]),
        software=Software(),
        tokens=tokens,
        device=device,
        compute_dtype="bfloat16" if device == "cuda" else "float32",
    )


def script(line: Line, out: Path) -> None:
    """The script that `--for fsdp2` writes, run as it is; what it prints is kept."""
    number = SCRIPTS.index(_key(line))
    path, printed = out / f"train_{number}.py", out / f"train_{number}.txt"
    if printed.exists():
        return
    path.write_text(written(line), encoding="utf-8")
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    with printed.open("w", encoding="utf-8") as file, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, *command, str(path)],
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=90,
        )
    print(printed.read_text(encoding="utf-8")[-300:], flush=True)


def written(line: Line) -> str:
    """The script that `--for fsdp2` writes for a predicted plan."""
    from gpuscope.planning.types import Candidate, Judged, Plan
    from gpuscope.program.models.parallel.options import Parallelism

    question = _question(Asked(line["model"], line["global_batch"], line["seq"]), DEVICES[0])
    figures = {name: value for name, value in line["on"][DEVICES[0]].items() if name != "chosen"}
    candidate = Candidate(question.clusters[0], Parallelism(**line["plan"]))
    best = Judged(candidate=candidate, scored_s=0.0, energy_j=None, usd=None, **figures)
    every = (best,)
    plan = Plan(
        question=question,
        best=best,
        ties=every,
        front=every,
        judged=every,
        rejected=(),
        candidates=1,
        scored_per_s=0.0,
    )
    return plan.to("fsdp2")


def _key(line: Line) -> tuple[str, str]:
    return line["question"], line["words"]


def _named(line: Line) -> Line:
    return {"question": line["question"], "words": line["words"]}


def _lines(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, line: Line) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def main() -> None:
    """Predict or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("predict", "measure"))
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--budget", type=float, default=330.0, help="seconds in all")
    parser.add_argument("--limit", type=float, default=50.0, help="seconds a plan at most")
    args = parser.parse_args()
    if args.what == "predict":
        predict()
    else:
        measure(args.out, args.budget, args.limit)


if __name__ == "__main__":
    main()
