"""Run the user's code; whatever it raises becomes one clear error that says what to do next."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text, capital
from gpuscope.errors import CaptureError, GpuscopeError, RefusedError, WorkloadError
from gpuscope.program.capture.network import refused
from gpuscope.program.user_code import user_line

_BY_ITSELF = Text(
    "Call build()() in Python: where that runs, gpuscope cannot follow this line yet, so leave it "
    "out while predicting."
)
_NO_CUDA = re.compile(
    r"dummy base class (?P<name>\w+)|Torch not compiled with CUDA enabled"
    r"|has no attribute '_(cuda|nccl|cudnn)\w*'|not linked with support for cuda"
)


def run_user_code(what: str, call: Callable[[], Any], alone: str = _BY_ITSELF) -> Any:
    """Call `call()`, with errors in the user's terms.

    Args:
        what: what is called, as the user knows it: "build()", "the first step".
        alone: said where nothing better is known: how to run the code without gpuscope.

    Raises:
        WorkloadError: it raised, or wants arguments.
        CaptureError: it follows data in a way that has no answer without them.
    """
    _refuse_arguments(what, call)
    try:
        return call()
    except (GpuscopeError, KeyboardInterrupt, GeneratorExit):
        raise
    except RefusedError as refusal:
        raise refusal.error from refusal
    except BaseException as error:
        raise _explained(what, error, alone) from error


def _refuse_arguments(what: str, call: Callable[[], Any]) -> None:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
    if needed:
        raise WorkloadError(
            Text(
                "{what} needs arguments: {needed}.", what=_capital(what), needed=", ".join(needed)
            ),
            Text("gpuscope calls it without any."),
            Text("Give them defaults, or take them from the surrounding function."),
        )


def _explained(what: str, error: BaseException, alone: str) -> WorkloadError:
    import torch

    place = user_line(error)
    what = _capital(what)
    text = _message(error)
    if isinstance(error, torch._subclasses.fake_tensor.DataDependentOutputException):
        return CaptureError(
            Text(
                "{what} depends on data in a way that cannot be followed{place}.",
                what=what,
                place=place,
            ),
            text,
            Text("Take the branch out of the step, or give it a fixed answer."),
        )
    gap = _gap(error)
    if gap:
        return CaptureError(
            Text(
                "{what} uses {part}, which gpuscope cannot follow yet{place}.",
                what=what,
                part=gap[0],
                place=place,
            ),
            Text("PyTorch says of it, without a device: {error}", error=text),
            gap[1],
        )
    raised = Text("{what} raised {error}{line}.", what=what, error=type(error).__name__, line=place)
    host = refused.host if _in_chain(error, OSError) else ""
    if "huggingface.co" in str(error) or _named_in_chain(error, "OfflineModeIsEnabled"):
        host = host or "huggingface.co"
    if host:
        return WorkloadError(
            Text("{what} wants to download from {host}{place}.", what=what, host=host, place=place),
            Text(
                "Capturing needs no weights and no data, and the network is closed meanwhile; "
                "caches are read."
            ),
            Text(
                "Build the model from its configuration (AutoModel.from_config(...), weights=None) "
                "and make up the inputs with torch.randint or torch.randn."
            ),
        )
    missing = _NO_CUDA.search(str(error))
    if missing:
        return WorkloadError(
            Text(
                "{what} uses {cuda_name}, which has no stand-in here{place}.",
                what=what,
                cuda_name=_cuda_name(error, missing),
                place=place,
            ),
            text,
            Text("Leave it out of the workload while predicting: guard it by a flag."),
        )
    return WorkloadError(raised, text, _next_step(error, alone))


_LINES, _CHARACTERS = 8, 800
"""As much of a message is shown."""


def _message(error: BaseException) -> str:
    """What an exception says, in one line, its C++ trace left out; its class if it says nothing."""
    said = str(error).partition("Exception raised from")[0].strip()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = " ".join(lines[:_LINES])[:_CHARACTERS]
    return text + " …" * (text != " ".join(lines)) or type(error).__name__


def _is_ours(error: BaseException) -> bool:
    """Whether it comes from the stand-ins that code runs on here, not from the code."""
    if "FakeTensor" in str(error):
        return True
    at, file = error.__traceback__, ""
    while at is not None:
        file = at.tb_frame.f_code.co_filename.replace("\\", "/")
        at = at.tb_next
    inside = any(part in file for part in ("/gpuscope/program/capture/", "/torch/_subclasses/"))
    return inside or (isinstance(error, NotImplementedError) and "/torch/" in file)


def _gap(error: BaseException) -> tuple[Text, Text] | None:
    """A part of PyTorch that runs on a GPU and not here, and the way round; None for any other."""
    said = str(error)
    if isinstance(error, torch_errors()):
        return (
            Text("the operator '{operator}'", operator=said.split()[0]),
            Text("Predict without it: give its result a fixed size, or leave it out by a flag."),
        )
    for sign, part, way in _GAPS:
        if sign in said:
            return part, way
    return None


def torch_errors() -> tuple[type[BaseException], ...]:
    """Errors of fakes themselves, that no real run raises."""
    from torch._subclasses.fake_tensor import (
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    )

    return DynamicOutputShapeException, UnsupportedOperatorException


_NESTED = (
    Text("nested tensors of the strided layout"),
    Text("Make them with layout=torch.jagged, or predict with padded tensors and a mask."),
)
_COMPRESSED = (
    Text("compressed sparse tensors (CSR, CSC, BSR, BSC)"),
    Text("Predict with sparse tensors of places and values: .to_sparse_coo()."),
)
_GAPS = (
    ("NestedTensorImpl", *_NESTED),
    ("self.shape_env must not be None", *_NESTED),
    ("compressed tensor instance", *_COMPRESSED),
    ("Sparse CSR tensors", *_COMPRESSED),
    (
        "already associated to a python object of type FakeTensor",
        Text("a tensor of a class that makes itself from another"),
        Text("Predict with a plain tensor in its place."),
    ),
)
"""Words of PyTorch's messages, what they are of, and the way round."""


def _next_step(error: BaseException, alone: str) -> str:
    from gpuscope.program.capture.checkpoints import misses_what_was_saved
    from gpuscope.program.capture.helpers import MixedDevicesError

    if isinstance(error, MixedDevicesError):
        return Text('Move it to the device, too: .cuda() or .to("cuda").')
    if misses_what_was_saved(error):
        return Text(
            "A function that is given to gpuscope runs on your own files: what has no values is "
            "not saved there. Name it as file.py:build: that runs on a private copy of them."
        )
    if isinstance(error, FileNotFoundError):
        return Text(
            "Give a path that exists from here ({folder}), or make the data up.", folder=Path.cwd()
        )
    if isinstance(error, ModuleNotFoundError) and error.name and " " not in error.name:
        return Text("Install '{name}' in this environment, or do without it.", name=error.name)
    if "Cannot access accelerator device" in str(error):
        return Text('Name the device: torch.device("cuda", n) for torch.device(n).')
    if isinstance(error, StopIteration):
        return Text("Provide data for at least two steps: gpuscope records the second.")
    if _wants_a_job(error):
        return Text(
            "It wants to be started by torchrun: predict it on several devices, for example "
            "--on 2xh200."
        )
    if isinstance(error, SystemExit):
        return Text("Take the exit out of the workload, and return a step from build().")
    if "UninitializedParameter" in str(error):
        return Text("Give lazy layers their sizes: nn.Linear(...) for nn.LazyLinear(...).")
    if _is_ours(error):
        return Text(
            "gpuscope cannot follow this line yet, though it may run on a GPU: leave it out while "
            "predicting, or put operators of PyTorch in its place."
        )
    return alone


_OF_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _wants_a_job(error: BaseException) -> bool:
    """Whether a variable is missing that torchrun sets."""
    if isinstance(error, KeyError):
        return error.args[:1] in {(name,) for name in _OF_TORCHRUN}
    return any(f"environment variable {name} expected" in str(error) for name in _OF_TORCHRUN)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def _in_chain(error: BaseException, kind: type[BaseException]) -> bool:
    return any(
        isinstance(e, kind) or "connect" in str(e) or "internet" in str(e) for e in _chain(error)
    )


def _named_in_chain(error: BaseException, name: str) -> bool:
    return any(type(e).__name__ == name for e in _chain(error))


def _cuda_name(error: BaseException, missing: re.Match[str]) -> str:
    """The `torch.cuda` function that failed, as the user called it."""
    if missing["name"]:
        return f"torch.cuda.{missing['name']}"
    at, calls = error.__traceback__, []
    while at is not None:
        code = at.tb_frame.f_code
        if "/torch/cuda/" in code.co_filename.replace("\\", "/"):
            module = Path(code.co_filename).stem
            prefix = "torch.cuda" if module == "__init__" else f"torch.cuda.{module}"
            calls.append(f"{prefix}.{code.co_name}")
        at = at.tb_next
    return calls[0] + "()" if calls else Text("a part of torch.cuda")


def _capital(text: str) -> str:
    return text if text.endswith("()") else capital(text)
