"""What a timeline means: one file a question, `analyze` to ask them all, `compare` for two runs."""

from gpuscope.analysis.analyze import analyze
from gpuscope.analysis.fit import FitOption, fit_options
from gpuscope.analysis.modules import fold_layers
from gpuscope.analysis.types import (
    Analysis,
    Energy,
    Finding,
    MemoryStory,
    ModuleShare,
    RankTime,
    Roofline,
    RooflinePoint,
    Share,
    Task,
    Utilisation,
)

__all__ = [
    "Analysis",
    "Energy",
    "Finding",
    "FitOption",
    "MemoryStory",
    "ModuleShare",
    "RankTime",
    "Roofline",
    "RooflinePoint",
    "Share",
    "Task",
    "Utilisation",
    "analyze",
    "fit_options",
    "fold_layers",
]
