"""Optimize the naive scripts, on several GPUs side by side.

    python benchmarks/ladders/run.py --out FOLDER --budget 240 --seconds 560 --slots 2 \
        cuda:0=gpt2,llama_decode:160 cuda:1=resnet50,vit_b16

Each device takes its cases in order, `--slots` at a time: runs on one device share it, so that one
compiles while another one is timed. What is not over after `--seconds` is interrupted, and writes
what it found. A model compiled with its optimizer takes 140 s until its results are compared
(GPT-2, the experts). Where `advice/CASE.json` holds the predictions, nothing is predicted anew.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent


class Queue:
    """The cases of one device.

    Args:
        text: "cuda:0=gpt2,llama_decode:160": a case, and its own budget in seconds.
        given: arguments of the command.
        more: arguments of every `gpuscope optimize`.
    """

    def __init__(self, text: str, given: argparse.Namespace, more: list[str]) -> None:
        self.device, _, cases = text.partition("=")
        self.waiting = [case.partition(":") for case in cases.split(",")]
        self.given, self.more = given, more
        self.running: list[tuple[str, IO[str], subprocess.Popen[bytes]]] = []

    def tick(self) -> bool:
        """Start what there is a slot for; whether something is left."""
        for each in [r for r in self.running if r[2].poll() is not None]:
            self.running.remove(each)
            each[1].close()
            print(f"{each[0]}: exit {each[2].poll()} after {time.monotonic() - BEGAN:.0f} s")
        while self.waiting and len(self.running) < self.given.slots:
            name, _, budget = self.waiting.pop(0)
            self.running.append(self._started(name, float(budget or self.given.budget)))
        return bool(self.waiting or self.running)

    def stop(self, sign: signal.Signals) -> None:
        """Interrupt or kill what runs; nothing else starts."""
        self.waiting.clear()
        for _, _, process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, sign)

    def _started(self, name: str, budget: float) -> tuple[str, IO[str], subprocess.Popen[bytes]]:
        out = self.given.out
        command = [
            sys.executable,
            "-m",
            "gpuscope",
            "optimize",
            f"{HERE / 'naive' / name}.py:build",
            "--device",
            self.device,
            "--budget",
            f"{budget:.0f}s",
            "--out",
            str(out / name),
            *self.more,
        ]
        if self.given.slots > 1:
            command += ["--share", str(out / f"timing-{self.device.replace(':', '')}")]
        advice = HERE / "advice" / f"{name}.json"
        if advice.exists():
            command += ["--advice", str(advice)]
        log = (out / f"{name}.log").open("w")
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "COLUMNS": "110"},
        )
        return name, log, process


BEGAN = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queues", nargs="+", help="device=case,case,...; case:90 for its budget")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=240)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--slots", type=int, default=1)
    given, more = parser.parse_known_args()
    given.out.mkdir(parents=True, exist_ok=True)
    queues = [Queue(text, given, more) for text in given.queues]
    while sum(queue.tick() for queue in queues):
        if time.monotonic() - BEGAN > given.seconds:
            for queue in queues:
                queue.stop(signal.SIGINT)
            time.sleep(10)
            for queue in queues:
                queue.stop(signal.SIGKILL)
            break
        time.sleep(0.3)
    for queue in queues:
        queue.tick()


if __name__ == "__main__":
    main()
