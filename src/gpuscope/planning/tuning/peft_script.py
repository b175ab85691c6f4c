"""A fine-tuning script with `transformers`, `peft` and `bitsandbytes`, complete.

It does what was simulated: what is frozen, quantised, adapted, shared and updated, how examples lie
in rows, what is computed again. Without weights and data of the user's it takes random ones, and
prints what a step takes and holds, so that it can be held against the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Cluster
from gpuscope.planning.tuning import peft_parts as parts
from gpuscope.planning.tuning.peft_head import constants, header, imports, is_sharded
from gpuscope.planning.tuning.types import Tuned, TuningQuestion, Weighed

__all__ = ["peft_script", "refuse_device"]

_VENDORS = ("NVIDIA", "AMD")
"""Whose devices PyTorch calls "cuda"."""

_OPTIMIZERS: Mapping[str, str] = {
    "adamw": "torch.optim.AdamW",
    "adamw-8bit": "bnb.optim.AdamW8bit",
    "paged-adamw-8bit": "bnb.optim.PagedAdamW8bit",
}


def refuse_device(cluster: Cluster) -> None:
    """Refuse devices that the script does not run on.

    Raises:
        UnsupportedError: none of CUDA's or ROCm's.
    """
    device = cluster.device
    if device.vendor not in _VENDORS:
        raise UnsupportedError(
            Text("The script of peft does not run on {device}.", device=device.name),
            Text("It takes what PyTorch calls cuda: devices of NVIDIA and AMD."),
            Text("Type for example: --on h100"),
        )


def peft_script(question: TuningQuestion, best: Weighed) -> str:
    """The script's text.

    Args:
        question: what was asked.
        best: what is started.

    Raises:
        UnsupportedError: devices that it does not run on.
    """
    each = best.candidate
    refuse_device(each.cluster)
    head = (header(question, best), imports(question, each), constants(question, each))
    return "\n\n".join(head) + "\n\n" + "\n".join(_functions(each))


def _functions(each: Tuned) -> list[str]:
    sharded, tuning = is_sharded(each), each.tuning
    found = [parts.LOAD]
    if tuning.method == "qlora":
        places = (".to(HOME)", "") if sharded else ("", ".to(DEVICE)")
        storage = "torch.bfloat16" if sharded else "torch.uint8"
        found.append(parts.QUANTISED.format(storage=storage, back=places[0], home=places[1]))
    if tuning.method != "full":
        found.append(parts.ADAPTED.format(wide=not sharded))
    found += [_made(each), parts.SHARED if sharded else ""]
    local = sharded and tuning.optimizer != "adamw"
    updating = parts.LOCAL_OPTIMIZER if local else parts.OPTIMIZER
    found.append(updating.format(optimizer=_OPTIMIZERS[tuning.optimizer]))
    found += [parts.EXAMPLES, parts.ROWS[each.packing], _step(each), parts.SAVE[sharded]]
    return [*(text for text in found if text), _main(each)]


def _made(each: Tuned) -> str:
    """What makes the model before it is shared."""
    method = each.tuning.method
    lines = ["model = load(path)"]
    if method == "qlora":
        lines = ["model = quantised(load(path))"]
        if not is_sharded(each):
            lines.append(
                "model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)"
            )
    if each.recompute:
        lines += [
            "model.gradient_checkpointing_enable(",
            '    gradient_checkpointing_kwargs={"use_reentrant": False}',
            ")",
        ]
    lines.append(f"return {'model' if method == 'full' else 'adapted(model)'}.train()")
    told = (
        "The model as it is trained, not yet shared."
        if each.devices > 1
        else ("The model as it is trained.")
    )
    return f'\ndef made(path):\n    """{told}"""\n' + indent("\n".join(lines), "    ") + "\n"


def _step(each: Tuned) -> str:
    """One step: adapters are trained under autocast, copies sum their gradients at the end."""
    lines = ["loss = model(**given, use_cache=False).loss / len(batches)"]
    if each.tuning.method != "full":
        lines = ["with torch.autocast(DEVICE.type, torch.bfloat16):", f"    {lines[0]}"]
    lines.append("loss.backward()")
    names = ("given", "batches")
    if each.devices > 1 and not is_sharded(each):
        names = ("number, given", "enumerate(batches, start=1)")
        waits = "contextlib.nullcontext() if number == len(batches) else model.no_sync()"
        lines = [f"with {waits}:", *(f"    {line}" for line in lines)]
    passes = indent("\n".join(lines), " " * 8)
    return parts.STEP.format(each=names[0], batches=names[1], passes=passes)


def _main(each: Tuned) -> str:
    """The model shared, its steps, its end."""
    lines = ["model = made(args.model)", "vocabulary = model.config.vocab_size"]
    begun = ['dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")']
    begun += ['if DEVICE.type == "cuda":', "    torch.cuda.set_device(DEVICE)"]
    if is_sharded(each):
        lines = [
            *begun,
            "mesh = init_device_mesh(DEVICE.type, (PLACES,))",
            'for turn in range(int(os.environ["LOCAL_WORLD_SIZE"])):',
            "    if turn == DEVICE_NUMBER:  # the host holds one whole copy at a time",
            "        model = shared(made(args.model), mesh)",
            "    dist.barrier()",
            lines[1],
        ]
    elif each.devices > 1:
        lines = [*begun, *lines, "model = DistributedDataParallel(model)"]
    ended = "    dist.barrier()\n    dist.destroy_process_group()\n" if each.devices > 1 else ""
    return parts.MAIN.format(made=indent("\n".join(lines), "    ") + "\n", end=ended)
