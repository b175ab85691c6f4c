"""How to find a model of the `transformers` package: names and configuration, as plain data."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError, require_package
from gpuscope.program.models.deferred_import import import_transformers
from gpuscope.program.models.parallel.configurations import size_of
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.registry import Model, Step
from gpuscope.program.models.settings import ATTENTIONS, Defaults, Settings

MOE_NOTE = Text(
    "experts run as one grouped matrix multiply (grouped_mm), the default of transformers from"
    " version 5 on"
)

Kind = Literal["causal", "encoder", "seq2seq", "speech", "vision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformersSpec:
    """A model of the `transformers` package with a configuration built in code.

    Attributes:
        package: folder under `transformers.models`, e.g. "llama".
        config: configuration class, e.g. "LlamaConfig".
        model: model class, e.g. "LlamaForCausalLM".
        values: the configuration's arguments, from the published config.json.
        kind: which inputs and tasks the model has.
        layer_keys: configuration arguments that hold the number of blocks.
        probe_cache: learn the cache's tensor shapes from one token's forward pass, where they
            are not (batch, key-value heads, tokens, head size).
    """

    package: str
    config: str
    model: str
    values: Mapping[str, object] = field(default_factory=dict)
    kind: Kind = "causal"
    layer_keys: tuple[str, ...] = ("num_hidden_layers",)
    probe_cache: bool = False

    def load(self) -> None:
        """Import the model's module alone.

        Raises:
            MissingPackageError: torch or transformers is not installed.
            UnsupportedError: the transformers that is installed does not know the model.
        """
        transformers_present(Text("The model '{name}'", name=self.model))
        name = f"models.{self.package}.modeling_{self.package}"
        try:
            import_transformers(name)
        except ModuleNotFoundError as error:
            if not f"transformers.{name}".startswith(error.name or "?"):
                raise
            version = importlib.metadata.version("transformers")
            raise UnsupportedError(
                Text("transformers {version} does not know this model.", version=version),
                Text("It has no module '{name}'.", name=error.name),
                Text("Install a later one: pip install --upgrade transformers"),
            ) from error
        self._builders()

    def context(self, settings: Settings) -> int | None:
        """A `Model.context`; call it after `load`."""
        from gpuscope.program.models.building.transformers_models import rotary_context

        return rotary_context(self, settings)

    def size(self) -> TransformerSize:
        """A `Model.size`: the decoder's sizes.

        Raises:
            UnsupportedError: an architecture for which there is no ready-made parallel program.
        """
        return size_of(self.package, self.values)

    def build(self, settings: Settings) -> Step:
        """A `Model.build`: makes the model and gives its step."""
        return self._builders()[self.kind](self, settings)

    def _builders(self) -> Mapping[str, Callable[[TransformersSpec, Settings], Step]]:
        """What makes the steps of this kind of model, imported."""
        if self.kind in ("seq2seq", "speech"):
            from gpuscope.program.models.building.seq2seq import BUILDERS
        else:
            from gpuscope.program.models.building.language import BUILDERS
        return BUILDERS


def transformers_present(needed_for: str) -> None:
    """Raise unless torch and transformers are installed.

    Raises:
        MissingPackageError: one of them is not.
    """
    for package in ("torch", "transformers"):
        require_package(package, needed_for, "models")


def text_tokens(settings: Settings) -> int:
    """Tokens of one step of a causal model: one a sequence when decoding."""
    return settings.batch * (1 if settings.task == "decode" else settings.seq)


def seq2seq_tokens(settings: Settings) -> int:
    """Tokens of one step of an encoder-decoder: inputs, and targets where it trains."""
    if settings.task == "decode":
        return settings.batch
    if settings.task == "train":
        return settings.batch * (settings.seq + target_length(settings.seq))
    return settings.batch * settings.seq


def target_length(seq: int) -> int:
    """Tokens of a training target beside `seq` input tokens: a quarter."""
    return max(1, seq // 4)


def causal_model(
    spec: TransformersSpec,
    *,
    name: str,
    family: str,
    description: str,
    parameters: int,
    tasks: Mapping[str, Defaults],
    aliases: tuple[str, ...] = (),
    attentions: tuple[str, ...] = ATTENTIONS,
    fp8: bool = True,
    notes: tuple[str, ...] = (),
) -> Model:
    """The `Model` of a decoder-only language model; arguments as in `Model`."""
    return Model(
        name=name,
        family=family,
        description=description,
        parameters=parameters,
        tasks=tasks,
        load=spec.load,
        build=spec.build,
        aliases=aliases,
        attentions=attentions,
        fp8=fp8,
        tokens=text_tokens,
        notes=notes,
        size=spec.size,
        context=spec.context,
    )


def language_tasks(
    *, train_batch: int, seq: int, context: int | None = None, train_amp: bool = False
) -> dict[str, Defaults]:
    """Usual tasks of a causal language model: training first, then prefill and decode at batch 1.

    Args:
        train_batch: sequences of a training step.
        seq: tokens of a sequence in training and prefill.
        context: tokens in the cache when decoding; `seq` by default.
        train_amp: train with float32 weights under autocast.
    """
    return {
        "train": Defaults(batch=train_batch, seq=seq, amp=train_amp, optimizer="adamw"),
        "prefill": Defaults(batch=1, seq=seq),
        "decode": Defaults(batch=1, context=context or seq),
    }
