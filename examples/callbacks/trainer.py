"""Predicted beside measured step time in whatever transformers' Trainer reports to.

python trainer.py LOGS [wandb]      # TensorBoard, and Weights & Biases offline
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from model import BATCH, Model, Rows, build
from transformers import Trainer, TrainerCallback, TrainingArguments

import gpuscope as gs
from gpuscope.runtime import StepTimes


class BesidePrediction(TrainerCallback):
    """Adds the two times to every log of the Trainer.

    It must come before the callbacks that write logs; the Trainer appends those of its user:
    `add_to` puts it first.
    """

    def __init__(self, predicted: Any) -> None:
        self.times = StepTimes(predicted)

    def add_to(self, trainer: Trainer) -> None:
        """Let a Trainer call this before it writes."""
        trainer.callback_handler.callbacks.insert(0, self)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Called every `logging_steps`."""
        if logs is not None:
            logs.update(self.times.at(state.global_step))


def main(folder: Path, *more: str) -> None:
    """Train for 30 steps on the CPU."""
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=BATCH,
        max_steps=30,
        logging_steps=5,
        report_to=["tensorboard", *more],
        save_strategy="no",
        use_cpu=True,
    )
    trainer = Trainer(Model(), arguments, train_dataset=Rows(30 * BATCH))
    BesidePrediction(gs.predict(build, on="h200")).add_to(trainer)
    trainer.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
