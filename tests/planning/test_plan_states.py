"""Moments of AdamW in fewer bytes: what they save, when they are tried, what starts them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml
from made import asked, judged, planned

from gpuscope.errors import DoesNotFitError, UnknownNameError, UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.planning.explanation import explained
from gpuscope.planning.score import score
from gpuscope.planning.search import search
from gpuscope.planning.simulate import Simulator, probability_to_fit
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate, Judged
from gpuscope.program.models.parallel.options import Parallelism

BF16, EIGHT = (("states", "bf16"),), (("states", "8bit"),)


def test_bytes_of_a_parameter() -> None:
    cluster, layout = parse_target("h200"), Parallelism(dp=1, microbatches=64)
    plans = [Candidate(cluster, layout, more) for more in ((), BF16, EIGHT)]
    least = score(asked(devices="1"), plans).least_bytes
    # float32 parameters; two moments of 4, 2, or 1 byte and a 256th of a float32 scale.
    held = least[0] / 12
    assert list(least / held) == pytest.approx([12, 8, 4 + 2 + 8 / 256])
    # As many as Llama 3.1 8B has, but for its norms.
    assert held == pytest.approx(8030261248, rel=1e-3)


def test_the_program_has_them() -> None:
    question = asked(model="gpt2", seq=512, devices="1", global_batch=4)
    small = replace(question, size=question.size.deep(1))
    layout, tables = Parallelism(dp=1, microbatches=4), Tables(small)
    held, spent = [], []
    for more in ((), BF16, EIGHT):
        candidate = Candidate(parse_target("h200"), layout, more)
        spent.append(tables.of(candidate).optimizer_s)
        (program,) = (
            each
            for key, each in tables._recorded.items()
            if more in key  # type: ignore[operator]
        )
        states = [s.nbytes for s in program.storages if s.category == "optimizer_state"]
        held.append(sum(states) / sum(
            s.nbytes / 4 for s in program.storages if s.category == "parameter"
        ))  # fmt: skip
    assert held == pytest.approx([8, 4, 2 + 8 / 256], rel=0.01)
    # 28 and 20 bytes to move; fewest with 8 bits, but its instructions take longer than all bytes.
    assert spent[2] > spent[0] > spent[1] > 0.6 * spent[0]


def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick score stands in for the simulator."""

    def judge(self: Simulator, candidate: Candidate, scored_s: float) -> Judged:
        scores = score(self.question, [candidate])
        peak, usable = float(scores.estimate_bytes[0]), candidate.cluster.device.memory_usable_bytes
        return replace(
            judged(float(scores.estimate_s[0])),
            candidate=candidate,
            peak_bytes=int(peak),
            usable_bytes=usable,
            fits=probability_to_fit(peak, usable),
        )

    monkeypatch.setattr(Simulator, "judge", judge)
    monkeypatch.setattr("gpuscope.planning.search.composed", lambda *_: {})


def _sized(memory: str, **more: Any) -> Any:
    given = {"model": "llama-3.1-8b", "on": "h100", "devices": "1", "global_batch": 4, "seq": 2048}
    return asked(**given, device_set=f"memory={memory}", **more)


def test_they_are_tried_where_nothing_fits_without(monkeypatch: pytest.MonkeyPatch) -> None:
    _quick(monkeypatch)
    roomy = search(_sized("160GB"))
    assert (roomy.lightened, roomy.best.candidate.more) == ("", ())
    # 8.03 billion parameters: 16 bytes each do not fit, 12 or 10 do.
    tight = search(_sized("120GB"))
    assert tight.lightened == "states"
    assert tight.best.candidate.more in (BF16, EIGHT)
    said = [str(line) for line in explained(tight).summary]
    assert "Nothing was found that fits with states float32." in said
    with pytest.raises(DoesNotFitError):  # what was asked for is all that is tried
        search(_sized("120GB", states="float32"))


def test_what_starts_them() -> None:
    for more, name in ((BF16, "bf16"), (EIGHT, "fp8")):
        text = planned(more, dp=8, fsdp="zero1").to("megatron")
        words = shlex.split(text, comments=True)
        assert words[words.index("--exp-avg-dtype") + 1] == name
        assert words[words.index("--exp-avg-sq-dtype") + 1] == name
        assert {"--use-precision-aware-optimizer", "--use-distributed-optimizer"} <= set(words)
    with pytest.raises(UnsupportedError, match="distributed optimizer"):
        planned(BF16, dp=8, fsdp="none").to("megatron")
    script = planned(EIGHT, dp=8).to("fsdp2")
    compile(script, "train.py", "exec")
    assert "optimizer = AdamW8bit(model.parameters())" in script
    assert "from torchao.optim import AdamW8bit" in script
    file = planned(EIGHT, dp=8).to("accelerate")
    assert "torchao.optim.AdamW8bit" in file
    assert yaml.safe_load(file)["distributed_type"] == "FSDP"
    for framework in ("torchtitan", "deepspeed"):
        with pytest.raises(UnsupportedError, match="cannot start states 8bit"):
            planned(EIGHT, dp=8).to(framework)
    with pytest.raises(UnsupportedError, match="cannot start states bf16"):
        planned(BF16, dp=8).to("fsdp2")
    with pytest.raises(UnknownNameError, match="4bit"):
        asked(states="4bit")
