"""Built-in workloads, one small file a family. Importing this package imports no torch.

A family file holds the published sizes as plain data and registers one `Model` a size; what
needs torch is in `networks/` (architectures) and `building/` (steps, optimizers, precision), and
is imported when a model is loaded.
"""

from gpuscope.program.models.registry import Model, ModelName, find, model_names
from gpuscope.program.models.settings import Defaults, Settings, WorkloadOptions

__all__ = ["Defaults", "Model", "ModelName", "Settings", "WorkloadOptions", "find", "model_names"]
