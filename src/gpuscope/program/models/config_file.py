"""A workload from a Hugging Face `config.json`: the architecture alone, nothing is downloaded."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, UnknownNameError, UnsupportedError
from gpuscope.outside.plain import file_bytes, python_json_of
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


_LARGEST_SIZE, _LARGEST_NUMBER = 10**9, 1e18

_WANTED: Mapping[str, Text] = {
    "size": Text("a whole number from 0 to 1,000,000,000"),
    "number": Text("a number"),
    "flag": Text("true or false"),
    "names": Text("a list of texts"),
    "name": Text("a text"),
}

_TYPES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"),
            *("n_embd", "n_head", "n_inner", "n_layer", "n_layers", "n_positions", "n_ctx"),
            *("num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers", "d_model"),
            *("d_ff", "d_kv", "num_heads", "encoder_attention_heads", "decoder_attention_heads"),
            *("encoder_ffn_dim", "decoder_ffn_dim", "max_target_positions"),
            *("num_local_experts", "num_experts", "num_experts_per_tok", "n_routed_experts"),
            *("moe_intermediate_size", "n_shared_experts", "first_k_dense_replace"),
            *("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"),
            *("v_head_dim",),
        ),
        "size",
    ),
    **dict.fromkeys(("rope_theta", "partial_rotary_factor"), "number"),
    **dict.fromkeys(("tie_word_embeddings", "attention_bias", "mlp_bias"), "flag"),
    "architectures": "names",
    **dict.fromkeys(("model_type", "_name_or_path"), "name"),
}
"""What entries of configurations are, where code here reads them."""


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
    inner = values.get("text_config")
    if isinstance(inner, dict) and isinstance(inner.get("model_type"), str):
        values = dict(inner)
        notes.append(Text("only the text part of the model is run"))
    if "quantization_config" in values:
        values.pop("quantization_config")
        notes.append(
            Text("the quantisation that the file asks for is left out: weights as in --dtype")
        )
    spec = _spec(values, file)
    name = str(values.get("_name_or_path") or file.resolve().parent.name or file.stem)
    return Model(
        name=name,
        family=str(values["model_type"]),
        description=Text("from {file}", file=file),
        parameters=None,
        tasks=_tasks(spec.kind, values),
        load=spec.load,
        build=spec.build,
        fp8=True,
        tokens=text_tokens,
        notes=tuple(notes),
        size=spec.size if spec.kind == "causal" else None,
        context=spec.context,
    )


def _read(file: Path) -> dict[str, Any]:
    next_step = Text("Give the path of a config.json of a Hugging Face model.")
    if not file.is_file():
        raise InputFileError(Text("There is no file {file}.", file=file), "", next_step)
    try:
        values = python_json_of(file_bytes(file))
    except (ValueError, OSError) as error:
        raise InputFileError(
            Text("{file} is not readable as JSON.", file=file), str(error), next_step
        ) from error
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise InputFileError(
            Text("{file} is not a model's configuration.", file=file), _missing(values), next_step
        )
    check_entries(values, file)
    if isinstance(inner := values.get("text_config"), dict):
        check_entries(inner, file, "text_config.")
    return values


def check_entries(values: Mapping[str, Any], file: Path, place: str = "") -> None:
    """Refuse entries of the well-known names that have another type or cannot be counted.

    Others are transformers' own business, which checks them itself.

    Raises:
        InputFileError: names the entry.
    """
    for name, value in values.items():
        kind = _TYPES.get(name)
        if value is None or kind is None:
            continue
        whole = isinstance(value, int) and not isinstance(value, bool)
        if kind == "size":
            fits = whole and 0 <= value <= _LARGEST_SIZE
        elif kind == "number":
            fits = (whole or isinstance(value, float)) and abs(value) <= _LARGEST_NUMBER
        elif kind == "flag":
            fits = isinstance(value, bool)
        elif kind == "names":
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        else:
            fits = isinstance(value, str)
        if not fits:
            raise InputFileError(
                Text("{file} is not a model's configuration.", file=file),
                Text("'{name}' has a value that cannot be.", name=f"{place}{name}"),
                Text("Correct it: {wanted}.", wanted=_WANTED[kind]),
            )


def _missing(values: object) -> Text:
    if isinstance(values, dict) and "_class_name" in values:
        return Text(
            "It describes a diffusers pipeline or model; transformers' have a 'model_type'."
        )
    return Text("It has no 'model_type'.")


def _spec(values: dict[str, Any], file: Path) -> TransformersSpec:
    auto = import_transformers("models.auto.configuration_auto")
    model_type = values["model_type"]
    if model_type not in auto.CONFIG_MAPPING_NAMES:
        version = importlib.metadata.version("transformers")
        raise UnknownNameError(
            Text("model_type"),
            model_type,
            auto.CONFIG_MAPPING_NAMES,
            Text(
                "transformers {version} has no such model; code beside a configuration is never "
                "run.",
                version=version,
            ),
        )
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
            Text(
                "{file} describes a '{model_type}', for which there is no workload.",
                file=file,
                model_type=model_type,
            ),
            Text(
                "There are workloads for language models, encoders, sequence-to-sequence and "
                "speech models, and image classifiers."
            ),
            Text("Write a build() of your own and type: file.py:build"),
        )
    return found[0]


def _layer_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    known = (
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "num_decoder_layers",
        "encoder_layers",
        "decoder_layers",
    )
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
        limit = min(limit, values.get("max_target_positions") or 448)
    if kind in ("seq2seq", "speech"):
        return language_tasks(train_batch=8, seq=min(limit, 512) // 2, train_amp=True)
    return language_tasks(train_batch=1, seq=min(limit, 2048), context=min(limit, 2048) - 1)
