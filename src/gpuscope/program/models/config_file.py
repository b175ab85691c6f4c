"""A workload from a Hugging Face `config.json`: the architecture alone, nothing is downloaded."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.errors import InputFileError, UnknownNameError, UnsupportedError
from gpuscope.program.models.deferred_import import import_transformers
from gpuscope.program.models.registry import Model
from gpuscope.program.models.settings import Defaults
from gpuscope.program.models.transformers_spec import (
    Kind,
    TransformersSpec,
    language_tasks,
    text_tokens,
    transformers_present,
)

__all__ = ["model_of_config"]

# transformers' tables of classes by model_type, the most telling first: a BART is listed as a
# causal and a masked model too.
_TABLES: tuple[tuple[str, Kind], ...] = (
    ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "speech"),
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "seq2seq"),
    ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "encoder"),
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "causal"),
    ("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "vision"),
)


def model_of_config(path: Path) -> Model:
    """The model that a `config.json`, or the folder that holds one, describes.

    Raises:
        InputFileError: no such file, not JSON, or not a configuration of transformers.
        UnknownNameError: a `model_type` that the installed transformers does not know.
        UnsupportedError: a kind of model for which there is no workload.
        MissingPackageError: torch or transformers is not installed.
    """
    file = path / "config.json" if path.is_dir() else path
    values = _read(file)
    transformers_present(str(file))
    notes = []
    if isinstance(values.get("text_config"), dict) and "model_type" in values["text_config"]:
        values = dict(values["text_config"])
        notes.append("only the text part of the model is run")
    if "quantization_config" in values:
        values.pop("quantization_config")
        notes.append("the quantisation that the file asks for is left out: weights as in --dtype")
    spec = _spec(values, file)
    name = str(values.get("_name_or_path") or file.resolve().parent.name or file.stem)
    return Model(
        name=name, family=str(values["model_type"]), description=f"from {file}", parameters=None,
        tasks=_tasks(spec.kind, values), load=spec.load, build=spec.build, fp8=True,
        tokens=text_tokens, notes=tuple(notes),
        size=spec.size if spec.kind == "causal" else None,
    )  # fmt: skip


def _read(file: Path) -> dict[str, Any]:
    next_step = "Give the path of a config.json of a Hugging Face model."
    if not file.is_file():
        raise InputFileError(f"There is no file {file}.", "", next_step)
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputFileError(f"{file} is not readable as JSON.", str(error), next_step) from error
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise InputFileError(f"{file} is not a model's configuration.", _missing(values), next_step)
    return values


def _missing(values: object) -> str:
    if isinstance(values, dict) and "_class_name" in values:
        return "It describes a diffusers pipeline or model; transformers' have a 'model_type'."
    return "It has no 'model_type'."


def _spec(values: dict[str, Any], file: Path) -> TransformersSpec:
    auto = import_transformers("models.auto.configuration_auto")
    model_type = values["model_type"]
    if model_type not in auto.CONFIG_MAPPING_NAMES:
        version = importlib.metadata.version("transformers")
        raise UnknownNameError(
            "model_type", model_type, auto.CONFIG_MAPPING_NAMES,
            f"transformers {version} has no such model; code beside a configuration is never run.",
        )  # fmt: skip
    model_class, kind = _model_class(values, file)
    return TransformersSpec(
        package=auto.model_type_to_module_name(model_type),
        config=auto.CONFIG_MAPPING_NAMES[model_type],
        model=model_class,
        values=values,
        kind=kind,
        layer_keys=_layer_keys(values),
        probe_cache=True,
    )


def _model_class(values: Mapping[str, Any], file: Path) -> tuple[str, Kind]:
    tables = import_transformers("models.auto.modeling_auto")
    model_type = values["model_type"]
    found: list[tuple[str, Kind]] = []
    for table, kind in _TABLES:
        names = dict(getattr(tables, table)).get(model_type, ())
        found += [(n, kind) for n in ((names,) if isinstance(names, str) else tuple(names))]
    for architecture in values.get("architectures") or ():
        for name, kind in found:
            if name == architecture:
                return name, kind
    if not found:
        raise UnsupportedError(
            f"{file} describes a '{model_type}', for which there is no workload.",
            "There are workloads for language models, encoders, sequence-to-sequence and speech"
            " models, and image classifiers.",
            "Write a build() of your own and type: file.py:build",
        )
    return found[0]


def _layer_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    known = (
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers",
        "encoder_layers", "decoder_layers",
    )  # fmt: skip
    return tuple(key for key in known if isinstance(values.get(key), int)) or known[:1]


def _tasks(kind: Kind, values: Mapping[str, Any]) -> dict[str, Defaults]:
    if kind == "vision":
        image = values.get("image_size", 224)
        image = image if isinstance(image, int) else 224
        return {
            "train": Defaults(batch=32, image=image, amp=True, optimizer="adamw"),
            "inference": Defaults(batch=32, image=image),
        }
    limits = [values.get(k) for k in ("max_position_embeddings", "n_positions", "n_ctx")]
    limit = min([n for n in limits if isinstance(n, int)] or [2048])
    if kind == "encoder":
        return {
            "train": Defaults(batch=8, seq=min(limit, 512), amp=True, optimizer="adamw"),
            "inference": Defaults(batch=8, seq=min(limit, 128)),
        }
    if kind == "speech":
        limit = min(limit, int(values.get("max_target_positions", 448)))
    if kind in ("seq2seq", "speech"):
        return language_tasks(train_batch=8, seq=min(limit, 512) // 2, train_amp=True)
    return language_tasks(train_batch=1, seq=min(limit, 2048), context=min(limit, 2048) - 1)
