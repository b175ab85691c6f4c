"""A built-in model and the user's options become a parallel job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError, require_package
from gpuscope.program.fold_declared import EqualLayers
from gpuscope.program.models.parallel.checks import padded_vocabulary, plan_of
from gpuscope.program.models.parallel.options import Job, Parallelism, ParallelOptions, Software
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.registry import Model, Step
from gpuscope.program.models.settings import Settings, WorkloadOptions
from gpuscope.program.models.settle import settle
from gpuscope.program.pipeline.decoder_stages import cut_layers
from gpuscope.program.world import World

__all__ = ["Prepared", "job_of", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A parallel job, ready to be captured or run.

    Attributes:
        job: what every rank does.
        world: rank 0 of the job.
        title: one line that says what a step does.
        notes: choices that a reader of the result should know.
    """

    job: Job
    world: World
    title: str
    notes: tuple[str, ...]

    def build(self) -> Step:
        """The step of any rank, where all do the same.

        Raises:
            InvalidValueError: the job is a pipeline (see `gpuscope.program.pipeline`).
        """
        return self._of(self.job)

    def at_depth(self, layers: int) -> Callable[[], Step]:
        """The same build with another number of blocks."""
        return lambda: self._of(replace(self.job, size=self.job.size.deep(layers)))

    @property
    def equal_layers(self) -> EqualLayers | None:
        """Which blocks repeat: all but the leading ones without experts; a hybrid's need not."""
        size = self.job.size
        if size.pattern:
            return None
        dense = size.experts.dense_layers if size.experts else 0
        return EqualLayers(size.layers, dense, size.period)

    @staticmethod
    def _of(job: Job) -> Step:
        if job.plan.pp > 1:
            raise InvalidValueError(
                Text("No single program stands for a pipeline."),
                Text("Its ranks hold different layers."),
                Text("Predict it on a cluster, or take gpuscope.program.pipeline.job_programs."),
            )
        from gpuscope.program.models.parallel.build import build_rank

        return build_rank(job, brief=True)


def prepare(model: Model, options: WorkloadOptions, asked: ParallelOptions) -> Prepared:
    """The job that the options describe for a built-in model; imports what running it needs.

    Raises:
        UnknownNameError, InvalidValueError: as `plan_of` and `settle`.
        UnsupportedError: a model that is no decoder of a known kind.
        MissingPackageError: torch is not installed.
    """
    settings = settle(model, options)
    job, notes = job_of(model, options, settings, asked)
    require_package("torch", Text("A parallel job"), "torch")
    _load(job.plan)
    world = World(job.plan.world_size, 0, asked.node or 8)
    return Prepared(
        job=job, world=world, title=_title(model.name, job), notes=(*notes, *_notes(job))
    )


def _load(plan: Parallelism) -> None:
    """Import what a step needs: what is imported inside a capture would run under its fakes."""
    import importlib

    importlib.import_module("gpuscope.program.models.parallel.build")
    if plan.pp > 1:
        importlib.import_module("gpuscope.program.pipeline.stage_step")
        importlib.import_module("torch.distributed.pipelining")
    if plan.cp > 1:
        importlib.import_module("torch.distributed.tensor.experimental")


def job_of(
    model: Model, options: WorkloadOptions, settings: Settings, asked: ParallelOptions
) -> tuple[Job, tuple[str, ...]]:
    """The job, and what was changed to make it possible.

    Raises:
        InvalidValueError: a task other than training, a batch given in another way.
        UnsupportedError: a model that is no decoder of a known kind, a dtype that is not offered.
    """
    if settings.task != "train":
        raise InvalidValueError(
            Text("There is no ready-made parallel {task}.", task=settings.task),
            Text("Ready-made parallel programs train."),
            Text("Type: --task train, or write a build() of your own."),
        )
    if options.batch is not None:
        raise InvalidValueError(
            Text("A parallel job has two batch sizes."),
            Text("A replica works on a microbatch at a time; a step is the global batch."),
            Text(
                "Type: --microbatch {batch}, or --global-batch, instead of --batch.",
                batch=options.batch,
            ),
        )
    if settings.dtype not in ("bfloat16", "float32"):
        raise UnsupportedError(
            Text("Ready-made parallel programs do not train in {dtype}.", dtype=settings.dtype),
            "",
            Text("Type: --dtype bfloat16 or float32."),
        )
    size, notes = _size(model, settings, asked.tp or 1)
    plan = plan_of(size, settings.seq, _recompute(asked, options))
    software = _software(options, settings, asked.software)
    _check_software(plan, software)
    mixed = settings.dtype == "bfloat16" and options.amp is not False
    job = Job(
        size=size,
        plan=plan,
        software=software,
        tokens=settings.seq,
        weight_dtype="float32" if mixed else settings.dtype,
        compute_dtype=settings.dtype,
        device=settings.device,
    )
    return job, notes


def _size(model: Model, settings: Settings, tp: int) -> tuple[TransformerSize, tuple[str, ...]]:
    if model.size is None:
        raise UnsupportedError(
            Text("There is no ready-made parallel program for {model}.", model=model.name),
            Text("There is one for decoders: GPT-2, Llama, Mixtral, Gemma, Qwen, Phi, DeepSeek."),
            Text("Write a build() with your own parallelism and type: file.py:build"),
        )
    size = model.size()
    if settings.layers is not None:
        size = size.deep(settings.layers)
    padded = padded_vocabulary(size, max(1, tp))
    if padded is size:
        return size, ()
    return padded, (
        Text(
            "The vocabulary is padded from {rows} to {padded} rows, so that {tp} ranks can share "
            "it (Megatron-LM does the same).",
            rows=Number(size.vocabulary, ","),
            padded=Number(padded.vocabulary, ","),
            tp=tp,
        ),
    )


def _recompute(asked: ParallelOptions, options: WorkloadOptions) -> ParallelOptions:
    if not options.checkpointing:
        return asked
    if asked.recompute not in (None, "full"):
        raise InvalidValueError(
            Text(
                "--checkpointing and --recompute {recompute} contradict each other.",
                recompute=asked.recompute,
            ),
            Text("Checkpointing is --recompute full."),
            Text("Leave out one of them."),
        )
    return replace(asked, recompute="full")


def _software(options: WorkloadOptions, settings: Settings, base: Software) -> Software:
    return replace(
        base,
        attention="eager" if settings.attention == "eager" else base.attention,
        optimizer=settings.optimizer if options.optimizer else base.optimizer,
        compile=settings.compile or base.compile,
    )


def _check_software(plan: Parallelism, software: Software) -> None:
    if plan.cp > 1 and software.attention not in ("flash", "flash_only", "cudnn"):
        raise InvalidValueError(
            Text("Context parallelism needs fused attention."),
            Text("The ring passes keys and values between its kernels."),
            Text("Leave out --attention eager."),
        )
    if software.loss_chunks > 1 and plan.tp > 1:
        raise InvalidValueError(
            Text("A loss in chunks beside tensor parallelism cannot be."),
            Text("The ranks share the vocabulary already, so each holds a part of the scores."),
            Text("Leave loss_chunks at 1."),
        )


def _title(name: str, job: Job) -> str:
    """E.g. "llama-3.1-70b train, 64 ranks (dp 4 x tp 8 x pp 2, fsdp full), batch 512 x ..."."""
    plan = job.plan
    degrees = [f"{n} {getattr(plan, n)}" for n in ("dp", "tp", "pp", "cp") if getattr(plan, n) > 1]
    split = " x ".join(degrees) or "one rank"
    if plan.ep > 1:
        split += f", ep {plan.ep}"
    if plan.etp > 1:
        split += f", etp {plan.etp}"
    if plan.dp * plan.cp > 1:
        split += f", fsdp {plan.fsdp}"
    if plan.pp > 1:
        split += f", {plan.schedule}" + (f" x {plan.virtual}" if plan.virtual > 1 else "")
    parts = [
        f"{name} train",
        f"{plan.world_size} rank{'s' * (plan.world_size > 1)} ({split})",
        f"batch {plan.global_batch} x {job.tokens} tokens",
        f"{plan.microbatches} microbatch{'es' * (plan.microbatches > 1)} of {plan.microbatch}",
        job.compute_dtype + (" mixed" if job.weight_dtype != job.compute_dtype else ""),
        job.software.optimizer,
    ]
    if job.software.attention != "flash":
        parts.append(f"{job.software.attention.replace('_', ' ')} attention")
    if job.software.matmul != "compute":
        parts.append(f"{job.software.matmul} products")
    if plan.recompute != "none":
        parts.append(f"{plan.recompute} recomputation")
    if job.software.compile:
        parts.append(f"compiled ({job.software.compile})")
    return ", ".join(parts)


def _notes(job: Job) -> tuple[str, ...]:
    plan, size = job.plan, job.size
    notes = []
    if size.experts is not None:
        notes.append(
            Text(
                "Tokens are spread evenly over the {experts} experts; none is dropped.",
                experts=size.experts.count,
            )
        )
    if plan.pp > 1:
        held = [len(stage.layers) for stage in cut_layers(size.layers, plan.stages, plan.cut)]
        if len(set(held)) > 1:
            blocks = ", ".join(map(str, held))
            notes.append(Text("Blocks of the stages, first to last: {blocks}.", blocks=blocks))
        if size.tied:
            notes.append(
                Text(
                    "The first and the last stage each hold the tied embedding; summing its two "
                    "gradients over them is left out."
                )
            )
    return tuple(notes)
