"""Tries damaged inputs on a reader: `python tools/fuzz.py READER --count 100000 --seed 1`.

Each input follows from reader, seed and number, so what fell can be made again:
`python tools/fuzz.py READER --seed 1 --show 4711 > input` writes it. With `--record FILE` the tally
is added to a file of results, one entry a reader (see tests/fuzz/README.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

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
    parser.add_argument("--show", type=int, default=None, help="write this input and end")
    parser.add_argument("--record", type=Path, default=None)
    asked = parser.parse_args()
    if asked.show is not None:
        from fuzz_run import input_of

        sys.stdout.buffer.write(input_of(TARGETS[asked.reader], asked.seed, asked.show))
        return
    fell = 0
    for name in TARGETS if asked.reader == "all" else [asked.reader]:
        fell += _one(name, asked)
    sys.exit(1 if fell else 0)


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
        found = shown(tried(TARGETS[name], asked.seed, numbers(), Path(folder)))
    found["seconds"] = round(time.monotonic() - begin, 1)
    print(json.dumps(found), flush=True)
    if asked.record is not None:
        with asked.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    return found["failed"]


if __name__ == "__main__":
    main()
