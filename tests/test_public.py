"""The public surface: what verbs return is exported, and each prints as one short line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import gpuscope as gs
from gpuscope.document.printable import LONGEST, short_repr
from gpuscope.document.text import Text

ROOT = Path(__file__).resolve().parents[1]

PUBLIC = {name: getattr(gs, name) for name in gs.__all__}
VERBS = [name for name, it in PUBLIC.items() if inspect.isfunction(it)]
ERRORS = [n for n, it in PUBLIC.items() if isinstance(it, type) and issubclass(it, Exception)]
RESULTS = [
    name
    for name, it in PUBLIC.items()
    if isinstance(it, type) and name not in ERRORS and name[0].isupper()
]

TRACE = ROOT / "tests/data/traces/h200/pageable_copies"


@pytest.fixture(scope="module")
def samples() -> dict[str, object]:
    """One of each, by the name of its class."""
    torch = pytest.importorskip("torch")

    from gpuscope.advice.results import Advice, Forecast, Ladder, Measured, Target, Trial
    from gpuscope.advice.types import ChangeCase
    from gpuscope.hardware import calibration_for
    from gpuscope.kernel_lens.machine import machine_of
    from gpuscope.kernel_lens.types import Lens
    from gpuscope.planning.own.types import Changed, OwnQuestion, Weighed
    from gpuscope.planning.question import question_of
    from gpuscope.planning.serving.sliced_types import SlicedPlan, SlicedQuestion, Way
    from gpuscope.planning.types import Candidate, Judged, Plan
    from gpuscope.program.models.parallel.options import Parallelism
    from gpuscope.serving.result import Served, Serving

    def build() -> Callable[[], object]:
        layer = torch.nn.Linear(256, 256).cuda()
        x = torch.randn(64, 256, device="cuda")
        return lambda: layer(x).sum().backward()

    run = gs.predict(build, on="h200")
    forecast = Forecast(("tf32",), "helps", Text("it helps"), 2.0)
    trial = Trial(("tf32",), ("tf32",), (), "kept", forecast, speedup=2.0)
    measured = Measured(0.1, 0.09, 0.11, 8)
    ladder = Ladder(
        Target("build", "train.py:build"), "H200", "time", measured, (trial,), ("tf32",)
    )
    cluster = gs.parse_target("2xh200")
    layout = Parallelism(dp=2)
    figures = {"scored_s": 0.9, "step_s": 1.0, "low_s": 0.9, "high_s": 1.1, "fits": 1.0}
    rest = {"peak_bytes": 10, "usable_bytes": 100, "energy_j": None, "usd": None}
    asked = question_of(
        "llama-3.1-8b",
        on="h200",
        devices="2",
        global_batch=8,
        seq=512,
        goal="time",
        tokens=None,
        simulate=1,
    )
    best = Judged(candidate=Candidate(cluster, layout), **figures, **rest)  # type: ignore[arg-type]
    own = Weighed(candidate=Changed(cluster, "ddp"), **figures, **rest)  # type: ignore[arg-type]
    made = [
        run,
        run.analysis,
        Plan(
            question=asked,
            best=best,
            ties=(best,),
            front=(best,),
            judged=(best,),
            rejected=(),
            candidates=1,
            scored_per_s=1.0,
        ),
        gs.OwnPlan(
            question=OwnQuestion(target="train.py:build", clusters=(cluster,)),
            best=own,
            ties=(own,),
            front=(own,),
            judged=(own,),
            rejected=(),
            before=None,
            candidates=1,
        ),
        gs.plan("gpt2", task="finetune", on="h100", global_batch=1, seq=16, simulate=1),
        gs.plan(
            "gpt2", task="serve", on="h100", devices=1, rate=1, input="64", answer="16", simulate=1
        ),
        SlicedPlan(
            SlicedQuestion("h200", "mps", (), 1, 1),
            Way(cluster, (("mps-50", "mps-50"),), 1.0, ()),
            (),
            None,
            1,
        ),
        gs.Trainable(question=asked, quick_days=1.0),
        gs.Refused("google-tpu-v5e", "Google TPU v5e", "It has no float64.", ""),
        *run.analysis.findings[:1],
        run.timeline,
        run.program,
        cluster,
        cluster.device,
        calibration_for(cluster.device),
        gs.compare(run, gs.load(str(TRACE))),
        gs.recost(build, "h200"),
        gs.explain("matmul", 512, 512, 512),
        gs.WorkloadOptions(batch=8),
        ladder,
        trial,
        forecast,
        Advice(ChangeCase(run, cluster, run.program, None), "time", (forecast,), (forecast,)),
        Lens("file.py:launch", machine_of("h200"), (), True, 10, 3),
        Serving("measured", "m", "vllm", "1", "h200", Served(*[np.zeros(1)] * 8)),
    ]
    return {type(it).__name__: it for it in made}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_a_signature_and_says_what_it_takes(name: str) -> None:
    verb = PUBLIC[name]
    parameters = inspect.signature(verb).parameters
    named = [p for p in parameters.values() if not p.kind.name.startswith("VAR")]
    assert named or not parameters
    assert verb.__doc__
    assert not isinstance(verb, ModuleType)


@pytest.mark.parametrize("name", VERBS)
def test_what_a_verb_returns_is_exported(name: str) -> None:
    hint = str(inspect.unwrap(PUBLIC[name]).__annotations__["return"])
    assert set(re.findall(r"\b[A-Z]\w+", hint)) - {"None"} <= set(gs.__all__)


@pytest.mark.parametrize("name", VERBS)
def test_one_name_for_one_thing(name: str) -> None:
    """`on` is the device, `on_progress` hears what is being done."""
    parameters = set(inspect.signature(PUBLIC[name]).parameters)
    assert not parameters & {"say", "tell", "progress", "callback", "target_device"}
    assert "device" not in parameters or name == "optimize"  # beside `on`: the one that runs it


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_prints_as_one_short_line(name: str, samples: dict[str, object]) -> None:
    if name == "RecostedJob":  # what `recost` makes of several ranks
        from gpuscope.timeline.recost_ranks import RecostedJob

        text = repr(RecostedJob(0.01, None, None, ()))
    else:
        text = repr(samples[name])
    assert text.startswith(f"<{name}")
    assert len(text) <= LONGEST
    assert text.isprintable()


def test_errors_are_all_exported() -> None:
    from gpuscope import errors

    # `RefusedError` is for a script's frames alone: whoever predicts it gets a `WorkloadError`.
    own = {n for n, it in vars(errors).items() if isinstance(it, type) and n.endswith("Error")}
    own = {name for name in own if issubclass(vars(errors)[name], Exception)}
    assert own <= set(gs.__all__)
    assert all(issubclass(PUBLIC[name], gs.GpuscopeError) for name in ERRORS)


def test_a_long_or_hostile_name_stays_one_line_with_its_figures() -> None:
    text = short_repr([], "a\nb\x1b[31m" + "c" * 500, "step 5 ms")
    assert len(text) < LONGEST
    assert text.isprintable()
    assert text.endswith("…: step 5 ms>")
    assert len(short_repr([], "a", "b" * 500)) == LONGEST


def test_former_keywords_keep_working() -> None:
    with (
        pytest.warns(DeprecationWarning, match=r"measure\(device=\) is on= now"),
        pytest.raises(gs.InvalidValueError),
    ):
        gs.measure(lambda: lambda: None, device="cpu", seconds=-1)
