"""Predicted beside measured step time in the loggers of torchtitan.

    python torchtitan_logger.py LOGS [wandb]      # TensorBoard, and Weights & Biases offline

In a training of torchtitan, after its Trainer is made:

    trainer.metrics_processor.logger = BesidePrediction(trainer.metrics_processor.logger, predicted)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from model import BATCH, Model, Rows, build
from torch.utils.data import DataLoader
from torchtitan.components.metrics import (
    BaseLogger,
    LoggerContainer,
    TensorBoardLogger,
    WandBLogger,
)

import gpuscope as gs
from gpuscope.runtime import StepTimes


class BesidePrediction(BaseLogger):
    """Adds the two times to what torchtitan logs every `metrics.log_freq` steps."""

    def __init__(self, logger: BaseLogger, predicted: Any) -> None:
        self.logger, self.times = logger, StepTimes(predicted)

    def log(self, metrics: dict[str, Any], step: int) -> None:
        """Called by its MetricsProcessor."""
        self.logger.log({**metrics, **self.times.at(step)}, step)

    def close(self) -> None:
        """Called at the end."""
        self.logger.close()


def main(folder: Path, *more: str) -> None:
    """Train for 30 steps on the CPU, logging as torchtitan's own loop does."""
    loggers = LoggerContainer()
    loggers.add_logger(TensorBoardLogger(str(folder)))
    if "wandb" in more:
        loggers.add_logger(WandBLogger(str(folder)))
    logger = BesidePrediction(loggers, gs.predict(build, on="h200"))
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    for step, batch in enumerate(DataLoader(Rows(30 * BATCH), batch_size=BATCH), 1):
        loss = model(**batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            logger.log({"loss_metrics/global_avg_loss": loss.item()}, step)
    logger.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
