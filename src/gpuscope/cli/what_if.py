"""`--what-if`: options of the workload that are predicted with other values for the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.program.models.settings import WorkloadOptions, canonical_dtype, choose
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.views.report.what_if_sizes import Varied

OPTIONS = ("batch", "seq", "dtype")

_FACTORS = (0.25, 0.5, 1, 2, 4)
"""Values looked at where none are named, over the run's own."""

_DTYPES = ("float32", "bfloat16")

MOST = 8
"""Most values: each is a capture of its own."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One option with the values that were named; () for the usual ones."""

    option: str
    values: tuple[int | str, ...] = ()


def wishes(texts: Sequence[str], workload: str) -> tuple[Wish, ...]:
    """Read `--what-if batch` or `--what-if batch=4,8,16`.

    Raises:
        UnknownNameError: no such option or dtype.
        InvalidValueError: values that cannot be, too many, or a workload that is fixed in code.
    """
    found: dict[str, Wish] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        option = choose("what-if option", name, OPTIONS, "--what-if")
        if ".py" in workload:
            raise InvalidValueError(
                Text("Cannot vary '{option}' of {workload}.", option=option, workload=workload),
                Text("Its size is fixed in its own code."),
                Text("Leave out --what-if: the report looks at other machines all the same."),
            )
        found[option] = Wish(option, _values(option, listed))
    return tuple(found.values())


def _values(option: str, listed: str) -> tuple[int | str, ...]:
    texts = [part.strip() for part in listed.split(",") if part.strip()]
    if len(texts) > MOST:
        raise InvalidValueError(
            Text("{count} values of {option} are too many.", count=len(texts), option=option),
            Text("Each is captured and predicted by itself."),
            Text("Name at most {most}.", most=MOST),
        )
    if option == "dtype":
        return tuple(dict.fromkeys(canonical_dtype(text) for text in texts))
    return tuple(sorted({_whole(option, text) for text in texts}))


def _whole(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InvalidValueError(
            Text("{option} = {text} cannot be.", option=option, text=text),
            Text("It must be a whole number of at least 1."),
            Text("Type: --what-if {option}=4,8,16", option=option),
        )
    return int(text)


def vary(
    wish: Wish,
    options: WorkloadOptions,
    workload: str,
    run: Run,
    predict: Callable[[WorkloadOptions], Run],
    say: Callable[[str], Any] = lambda text: None,
) -> Varied:
    """Predict the workload with each value; the run itself stands for its own.

    Usual values that the model does not take (a sequence beyond its positions) are left out; one
    that was named is an error.

    Args:
        wish: the option and its values.
        options, workload: of the run.
        run: what was predicted.
        predict: of other options.
        say: told each value.

    Raises:
        GpuscopeError: a named value cannot be predicted.
    """
    from gpuscope.program.workload import resolve
    from gpuscope.views.report.what_if_sizes import Varied

    settled = resolve(workload, options, load=False)
    own: int | str | None = getattr(settled, wish.option)
    points: list[tuple[int | str, Run]] = []
    for value in wish.values or _usual(wish.option, own):
        if value == own:
            points.append((value, run))
            continue
        say(f"{wish.option} = {value} …")
        changes: dict[str, Any] = {wish.option: value}
        try:
            points.append((value, predict(replace(options, **changes))))
        except GpuscopeError:
            if wish.values:
                raise
    return Varied(wish.option, tuple(points))


def _usual(option: str, own: int | str | None) -> tuple[int | str, ...]:
    if option == "dtype":
        return tuple(dict.fromkeys((*_DTYPES, *((own,) if own else ()))))
    if not isinstance(own, int):
        return ()
    return tuple(sorted({max(1, round(own * factor)) for factor in _FACTORS}))
