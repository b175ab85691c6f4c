"""Tries damaged inputs on a reader: `python tools/fuzz.py READER --count 100000 --seed 1`.

Each input follows from reader, seed and number, so what fell can be made again:
`python tools/fuzz.py READER --seed 1 --show 4711 > input` writes it. `--quick` damages 256 inputs
further, byte by byte: several times as many a second. `--guided` lets Atheris choose inputs by the
code that they reach (it must be installed); what fell is kept with `--keep FOLDER`.
`all --workers 16 --seconds 540 --out FOLDER` tries all readers on so many processes. With
`--record FILE` the tally is added to a file of results, a line a reader (see tests/fuzz/README.md).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzz_run import InputOf

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "fuzz"), str(ROOT / "tests" / "timeline"), str(ROOT / "src")]


def main() -> None:
    """Try, tell, record; exit code 1 where something fell."""
    from fuzz_targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", choices=[*TARGETS, "all"])
    parser.add_argument("--count", type=int, default=1000, help="inputs")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--quick", action="store_true", help="bytes of 256 inputs damaged")
    parser.add_argument(
        "--guided", action="store_true", help="inputs of Atheris; ends at --seconds"
    )
    parser.add_argument("--keep", type=Path, default=None, help="folder for what fell while guided")
    parser.add_argument("--show", type=int, default=None, help="write this input and end")
    parser.add_argument("--record", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=0, help="all readers, on so many processes")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="folder, with --workers")
    asked = parser.parse_args()
    if asked.show is not None:
        made = _makes(asked.quick)(TARGETS[asked.reader], asked.seed, asked.show)
        sys.stdout.buffer.write(made)
        return
    if asked.workers:
        sys.exit(1 if _many(asked) else 0)
    fell = 0
    for name in TARGETS if asked.reader == "all" else [asked.reader]:
        fell += _one(name, asked)
    sys.exit(1 if fell else 0)


def _makes(quick: bool) -> InputOf:
    from fuzz_run import input_of, quick_input_of

    return quick_input_of if quick else input_of


def _many(asked: argparse.Namespace) -> int:
    from fuzz_many import many

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        fell = many(asked.seconds or 60, asked.workers, asked.out, Path(folder), seed=asked.seed)
    print((asked.out / "results.jsonl").read_text("utf-8"), end="")
    return fell


def _one(name: str, asked: argparse.Namespace) -> int:
    from fuzz_run import shown, tried
    from fuzz_targets import TARGETS

    begin = time.monotonic()

    def numbers() -> range:
        for number in range(asked.first, asked.first + asked.count):
            if asked.seconds is not None and time.monotonic() - begin > asked.seconds:
                return
            yield number

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if asked.guided:
            found = _guided(name, asked, Path(folder))
        else:
            makes = _makes(asked.quick)
            tally = tried(TARGETS[name], asked.seed, numbers(), Path(folder), input_of=makes)
            found = shown(tally)
    if asked.guided or asked.quick:
        found["how"] = "guided" if asked.guided else "quick"
    found["seconds"] = round(time.monotonic() - begin, 1)
    print(json.dumps(found), flush=True)
    if asked.record is not None:
        with asked.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    return found["failed"]


def _guided(name: str, asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """In a process of its own: Atheris changes what is imported, and never comes back."""
    told = folder / "tally.json"
    parts = (name, str(asked.seed), str(asked.seconds or 60), str(folder), str(asked.keep or ""))
    script = ROOT / "tests" / "fuzz" / "fuzz_guided.py"
    ended = subprocess.run([sys.executable, "-P", str(script), *parts], stdout=2, check=False)
    if not told.exists():
        sys.exit(f"{name}: Atheris ended with {ended.returncode} before it told anything")
    found: dict[str, Any] = json.loads(told.read_text("utf-8"))
    if ended.returncode:  # the interpreter itself fell: what was counted last is told
        found["failed"] += 1
        found["ended"] = ended.returncode
    return found


if __name__ == "__main__":
    main()
