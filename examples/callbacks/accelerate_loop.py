"""Predicted beside measured step time in every tracker of accelerate.

python accelerate_loop.py LOGS [wandb]      # TensorBoard, and Weights & Biases offline
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from model import BATCH, Model, Rows, build
from torch.utils.data import DataLoader

import gpuscope as gs
from gpuscope.runtime import StepTimes


class BesidePrediction:
    """Called after a step of your own loop, it logs the two times to every tracker."""

    def __init__(self, accelerator: Accelerator, predicted: Any, every: int = 5) -> None:
        self.accelerator, self.times, self.every = accelerator, StepTimes(predicted), every

    def __call__(self, step: int) -> None:
        """After step number `step`, counted from 1."""
        found = self.times.at(step) if step % self.every == 0 else {}
        if found:
            self.accelerator.log(found, step=step)


def main(folder: Path, *more: str) -> None:
    """Train for 30 steps on the CPU."""
    accelerator = Accelerator(cpu=True, log_with=["tensorboard", *more], project_dir=str(folder))
    accelerator.init_trackers("run", init_kwargs={"wandb": {"dir": str(folder)}})
    after_step = BesidePrediction(accelerator, gs.predict(build, on="h200"))
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    data = DataLoader(Rows(30 * BATCH), batch_size=BATCH)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for step, batch in enumerate(data, 1):
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()
        after_step(step)
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
