"""Predicted beside measured step time in every logger of Lightning.

python lightning_callback.py LOGS [wandb]      # TensorBoard, and Weights & Biases offline
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from model import BATCH, Model, Rows, build
from torch.utils.data import DataLoader

import gpuscope as gs
from gpuscope.runtime import StepTimes


class BesidePrediction(Callback):
    """Logs the two times as often as the Trainer logs anything."""

    def __init__(self, predicted: Any) -> None:
        self.times = StepTimes(predicted)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Called after every batch."""
        if trainer.global_step % trainer.log_every_n_steps == 0:
            found = self.times.at(trainer.global_step)
            for logger in trainer.loggers if found else ():
                logger.log_metrics(found, trainer.global_step)


class Module(LightningModule):
    """The model of the examples."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def training_step(self, batch: Any, _: int) -> Any:
        """The loss of a batch."""
        return self.model(**batch)["loss"]

    def configure_optimizers(self) -> Any:
        """As in `model.build`."""
        return torch.optim.AdamW(self.parameters())


def main(folder: Path, *more: str) -> None:
    """Train for 30 steps on the CPU."""
    loggers: list[Any] = [TensorBoardLogger(str(folder))]
    if "wandb" in more:
        loggers.append(WandbLogger(save_dir=str(folder), offline=True))
    trainer = Trainer(
        accelerator="cpu",
        max_steps=30,
        log_every_n_steps=5,
        logger=loggers,
        callbacks=[BesidePrediction(gs.predict(build, on="h200"))],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(Rows(30 * BATCH), batch_size=BATCH))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
