"""Two files that `plan --for torchtitan` writes, started as they are on two H200s.

    python validation/torchtitan_runs.py predict             # no GPU: results/torchtitan_runs.json
    python validation/torchtitan_runs.py measure --out DIR   # two GPUs: DIR/torchtitan_runs.jsonl

torchtitan 0.2.2 trains its own Llama 3.1 8B from the file. The command line names what the file
leaves to the user: the model, the number of steps. The tokens are random, by a loader of our own;
what torchtitan imports for data sets and event files, and uses for neither here, is stood in for
where it is not installed. A step is timed around `Trainer.train_step`, devices waited for. Of memory
what the allocator reserved is kept: torchtitan starts the peak anew at each line that it logs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
PREDICTED = HERE / "results" / "torchtitan_runs.json"
MEASURED = "torchtitan_runs.jsonl"
MODEL, WORDS = "llama-3.1-8b", 128256
QUESTIONS = {
    "short": {"global_batch": 16, "seq": 2048, "goal": "time"},
    "long": {"global_batch": 2, "seq": 16384, "goal": "time"},
}
STEPS, WARM = 10, 4


def predict() -> None:
    """Write what is planned, what it should take, and the file that starts it."""
    sys.path[:0] = [str(HERE.parent / "src")]
    from gpuscope.planning.question import question_of
    from gpuscope.planning.search import search

    lines = {}
    for name, asked in QUESTIONS.items():
        question = question_of(
            MODEL, on="h200", devices="2", framework="torchtitan", simulate=2, **asked
        )
        plan = search(question)
        best = plan.best
        lines[name] = {
            "words": best.candidate.words,
            "step_s": best.step_s,
            "low_s": best.low_s,
            "high_s": best.high_s,
            "peak_bytes": best.peak_bytes,
            "file": plan.to("torchtitan"),
        }
        PREDICTED.write_text(json.dumps(lines, indent=1) + "\n")


def measure(out: Path) -> None:
    """Start each file under torchrun and append what it took to the results."""
    out.mkdir(parents=True, exist_ok=True)
    for name, line in json.loads(PREDICTED.read_text()).items():
        (out / f"{name}.toml").write_text(line["file"])
        arguments = [
            f"--job.config_file={out / name}.toml", f"--job.dump_folder={out / 'dump'}",
            "--model.name=llama3_random", "--model.flavor=8B", f"--training.steps={STEPS}",
            "--metrics.log_freq=1",
        ]  # fmt: skip
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
            __file__, "rank", str(out / MEASURED), name, *arguments,
        ]  # fmt: skip
        with (out / f"{name}.log").open("w") as log:
            try:
                code: int | None = subprocess.run(
                    command, stdout=log, stderr=log, timeout=280
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
        print(name, "ended with", code, flush=True)


def _stand_in(name: str, **parts: Any) -> None:
    """A module that is imported and not used, where it is not installed."""
    try:
        missing = importlib.util.find_spec(name.partition(".")[0]) is None
    except ValueError:  # a module inside of one that is stood in for has no spec
        missing = True
    if missing:
        made = ModuleType(name)
        made.__dict__.update(parts)
        sys.modules[name] = made


class _Tokens:
    """Batches of random tokens, one for each micro-batch."""

    def __init__(self, rank: int, batch: int, seq: int) -> None:
        self.rank, self.batch, self.seq = rank, batch, seq

    def __iter__(self) -> Any:
        import torch

        maker = torch.Generator().manual_seed(self.rank)
        while True:
            tokens = torch.randint(WORDS, (self.batch, self.seq + 1), generator=maker)
            yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()

    def state_dict(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing was kept."""


def _loader(dp_world_size: int, dp_rank: int, tokenizer: Any, job_config: Any, **_: Any) -> Any:
    return _Tokens(dp_rank, job_config.training.local_batch_size, job_config.training.seq_len)


def rank(results: str, name: str, arguments: list[str]) -> None:
    """One rank of torchtitan, timed."""
    sys.argv = ["train", *arguments]  # read when torchtitan is imported
    _stand_in("datasets", Dataset=object, load_dataset=None)
    _stand_in("datasets.distributed", split_dataset_by_node=None)
    if importlib.util.find_spec("tensorboard") is None:
        made = ModuleType("torch.utils.tensorboard")
        made.SummaryWriter = object  # type: ignore[attr-defined]
        sys.modules["torch.utils.tensorboard"] = made
    import torch
    from torchtitan import train
    from torchtitan.models.llama3 import get_train_spec
    from torchtitan.protocols.train_spec import register_train_spec

    spec = replace(get_train_spec(), build_dataloader_fn=_loader, build_tokenizer_fn=None)
    register_train_spec("llama3_random", spec)
    steps_s: list[float] = []
    plain = train.Trainer.train_step

    def timed(self: Any, *given: Any) -> Any:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        found = plain(self, *given)
        torch.cuda.synchronize()
        steps_s.append(time.perf_counter() - begin)
        return found

    train.Trainer.train_step = timed
    state = SimpleNamespace(outcome="ran")
    try:
        train.main(train.Trainer)
    except torch.OutOfMemoryError:
        state.outcome = "out of memory"
    if int(os.environ["RANK"]) == 0:
        line = {
            "question": name,
            "outcome": state.outcome,
            "step_s": statistics.median(steps_s[WARM:] or [0.0]),
            "steps_s": steps_s,
            "reserved_bytes": torch.cuda.max_memory_reserved(),
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
        }
        with Path(results).open("a") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    """Read the command line."""
    if sys.argv[1:2] == ["rank"]:
        rank(sys.argv[2], sys.argv[3], sys.argv[4:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("predict", "measure"))
    parser.add_argument("--out", type=Path, default=Path())
    given = parser.parse_args()
    if given.what == "predict":
        predict()
    else:
        measure(given.out.resolve())


if __name__ == "__main__":
    main()
