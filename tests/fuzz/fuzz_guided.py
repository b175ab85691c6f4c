"""One target under Atheris, which keeps the inputs that reach new code and changes those further.

Run by `python tools/fuzz.py READER --guided`, in a process of its own: gpuscope is imported with
counters in it, and libFuzzer never comes back. What is kept and what falls is the same as for the
other inputs (`fuzz_run.Trial`); what fell is no end, but kept and counted.

    fuzz_guided.py READER SEED SECONDS FOLDER KEEP      KEEP: a folder for what fell; "" for none
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "timeline"), str(HERE.parents[1] / "src")]

SEEDS = 128
"""Inputs made with care that it begins with."""

TOLD_EVERY = 500
"""Inputs between two tallies: the last one stands where the interpreter itself falls."""


def main(name: str, seed: int, seconds: float, folder: Path, keep: str) -> None:
    """Try inputs for so long, and write the tally to `tally.json` in the folder."""
    import atheris

    with atheris.instrument_imports(include=["gpuscope"]):
        from fuzz_run import Trial, input_of, peak_bytes, shown
        from fuzz_targets import TARGETS

        trial = Trial(TARGETS[name], seed, folder)
    corpus = folder / "corpus"
    corpus.mkdir()
    made = [input_of(trial.target, seed, number) for number in range(SEEDS)]
    for number, data in enumerate(made):
        (corpus / str(number)).write_bytes(data)
    told, begin = folder / "tally.json", time.monotonic()

    def tell() -> None:
        trial.tally.peak_bytes = peak_bytes()
        told.write_text(json.dumps(shown(trial.tally)))

    def one(data: bytes) -> None:
        number = trial.tally.tried
        problem = trial.one(data, number)
        if problem and keep and number in trial.tally.failures[problem]:
            (Path(keep) / f"{name}-{seed}-{number}").write_bytes(data)
        over = time.monotonic() - begin > seconds
        if problem or over or number % TOLD_EVERY == 0:
            tell()
        if over:
            os._exit(0)  # libFuzzer has no other way out that keeps what was told

    longest = max(map(len, made))
    with trial.watched():
        atheris.Setup(
            [name, str(corpus), f"-seed={seed + 1}", f"-max_len={longest}", "-verbosity=0"], one
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
