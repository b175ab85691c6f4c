"""The script that starts a fine-tuning: it compiles, runs, and does what was simulated."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gpuscope
from gpuscope.errors import DoesNotFitError, UnknownNameError, UnsupportedError
from gpuscope.planning.tuning.explanation import explained_tuning
from gpuscope.planning.tuning.score import estimate
from gpuscope.planning.tuning.search import question_of_tuning
from gpuscope.planning.tuning.simulate import Simulator
from gpuscope.planning.tuning.space import OF_METHOD, candidates
from gpuscope.planning.tuning.types import Tuned, TuningPlan, TuningQuestion, Weighed

NARROW = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""A Llama that a processor runs in no time."""


def answered(question: TuningQuestion, best: Tuned | None, simulated: bool = True) -> TuningPlan:
    """A plan whose choice is this one, by the quick score."""
    weighed = None
    if best is not None:
        quick = estimate(question.size, question.seq, best)
        weighed = Weighed(
            candidate=best,
            scored_s=quick.step_s,
            scored_bytes=quick.peak_bytes,
            step_s=quick.step_s,
            low_s=quick.step_s * 0.9,
            high_s=quick.step_s * 1.1,
            peak_bytes=int(quick.peak_bytes),
            held=(("parameter", 1),),
            usable_bytes=best.cluster.device.memory_usable_bytes,
            fits=1.0,
            energy_j=None,
            usd=None,
            simulated=simulated,
        )
    found = () if weighed is None else (weighed,)
    return TuningPlan(
        question=question,
        best=weighed,
        ties=found,
        front=found,
        judged=found if simulated else (),
        short=(),
        would_fit=(),
        rejected=(),
        candidates=1,
    )


def asked(**given: Any) -> TuningQuestion:
    usual: dict[str, Any] = {"on": "h100", "devices": 1, "method": "lora,qlora,full", "seq": 64}
    return question_of_tuning(
        given.pop("model", "llama-3.2-1b"), **{**usual, "global_batch": 8, **given}
    )


def chosen(question: TuningQuestion, **wanted: Any) -> TuningPlan:
    """The first candidate that has all of these."""

    def has(each: Tuned) -> bool:
        own = {
            "method": each.tuning.method,
            "optimizer": each.tuning.optimizer,
            "sharding": each.tuning.sharding,
            "packing": each.packing,
            "recompute": each.recompute,
            "microbatch": each.microbatch,
        }
        return all(own[name] == value for name, value in wanted.items())

    return answered(question, next(each for each in candidates(question)[0] if has(each)))


def loaded(text: str, folder: Path) -> ModuleType:
    """The script as a module, with a model that is small."""
    path = folder / "tune.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("tune", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values = {**module.CONFIG.to_dict(), **NARROW}
    module.CONFIG = type(module.CONFIG).from_dict(values)  # type: ignore[attr-defined]
    return module


def losses(said: str) -> list[float]:
    return [float(each) for each in re.findall(r"loss ([0-9.]+)", said)]


LENGTHS = {"lengths": "16..64"}
"""Of examples."""


@pytest.mark.parametrize("devices", [1, 2, "16"])
def test_every_variant_compiles(devices: int | str) -> None:
    texts = set()
    for given in ({}, LENGTHS):
        question = asked(devices=devices, global_batch=64, **given)
        for each in candidates(question)[0]:
            text = answered(question, each).to("peft")
            texts.add(text)
            compile(text, "tune.py", "exec")
            assert max(map(len, text.splitlines())) <= 100
            assert each.words in " ".join(text.split())
    assert len(texts) > 30


def test_the_head_says_what_starts_it_and_what_was_checked() -> None:
    shared = chosen(asked(devices="16", global_batch=64), method="full", sharding="full")
    text = shared.to("peft")
    assert "torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d" in text
    assert "Not checked: on a GPU" in text
    assert "80 % sure" in text
    assert "pip install transformers accelerate\n" in text
    alone = chosen(asked(), method="qlora").to("peft")
    assert "    python tune.py" in alone
    assert "pip install transformers accelerate peft bitsandbytes\n" in alone
    assert "torch.distributed" not in alone
    assert "caps its attention" in chosen(asked(model="gemma-2-2b"), method="lora").to("peft")
    question = asked()
    quick = answered(question, candidates(question)[0][0], simulated=False).to("peft")
    assert "nothing was simulated" in quick


def test_a_plan_of_so_many_tokens_says_its_steps() -> None:
    question = asked(tokens=8 * 64 * 50)
    assert "MICROBATCH, STEPS = 64, 1, 50" in chosen(question, method="lora").to("peft")


def test_adapters_are_those_that_were_asked_for() -> None:
    text = chosen(asked(rank=8, targets="q,v"), method="lora").to("peft")
    assert 'RANK, TARGETS = 8, ["q_proj", "v_proj"]' in text


@pytest.mark.parametrize("recompute", [False, True])
def test_full_runs_on_a_processor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recompute: bool
) -> None:
    plan = chosen(asked(), method="full", optimizer="adamw", microbatch=2, recompute=recompute)
    loaded(plan.to("peft"), tmp_path).main(["--steps", "2", "--save", str(tmp_path / "kept")])
    assert len(losses(capsys.readouterr().out)) == 2
    assert (tmp_path / "kept" / "config.json").exists()


@pytest.mark.parametrize("packing", ["padded", "mask", "flash"])
def test_examples_in_rows_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], packing: str
) -> None:
    question = asked(**LENGTHS)
    plan = chosen(question, method="full", optimizer="adamw", microbatch=2, packing=packing)
    loaded(plan.to("peft"), tmp_path).main(["--steps", "3"])
    assert len(losses(capsys.readouterr().out)) == 3


def test_packed_examples_see_themselves_alone(tmp_path: Path) -> None:
    """The loss of a packed row is the mean over its examples' tokens, each computed alone."""
    import torch

    kept = {}
    for packing in ("mask", "flash"):
        plan = chosen(
            asked(**LENGTHS), method="full", optimizer="adamw", microbatch=2, packing=packing
        )
        kept[packing] = loaded(plan.to("peft"), tmp_path)
    script = kept["mask"]
    model = script.made(None).float()
    taken = [[list(range(3, 20)), list(range(40, 70))], [list(range(80, 100))]]
    alone = torch.zeros(())
    for each in (each for row in taken for each in row):
        tokens = torch.tensor([each])
        alone += model(input_ids=tokens, labels=tokens).loss.detach() * (len(each) - 1)
    tokens = sum(len(each) - 1 for row in taken for each in row)
    for module in kept.values():
        loss = model(**module.batch(taken), use_cache=False).loss
        assert float(loss.detach()) == pytest.approx(float(alone) / tokens, rel=1e-4)


@pytest.mark.parametrize(
    ("method", "recompute", "packing"),
    [("lora", False, "none"), ("qlora", True, "none"), ("lora", True, "padded")],
)
def test_adapters_learn_on_a_processor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, recompute: bool, packing: str
) -> None:
    pytest.importorskip("peft")
    if method == "qlora":
        pytest.importorskip("bitsandbytes")
    question = asked(**(LENGTHS if packing != "none" else {}))
    wanted = {"method": method, "recompute": recompute, "packing": packing}
    script = loaded(chosen(question, microbatch=2, **wanted).to("peft"), tmp_path)
    script.RATE = 1e-2
    script.main(["--steps", "2", "--save", str(tmp_path / "kept")])
    assert len(losses(capsys.readouterr().out)) == 2
    assert (tmp_path / "kept" / "adapter_config.json").exists()
    learning = [name for name, p in script.made(None).named_parameters() if p.requires_grad]
    assert learning
    assert all("lora_" in name for name in learning)


def test_weights_and_data_of_the_user_take_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("accelerate")
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    own = tmp_path / "own"
    LlamaForCausalLM(LlamaConfig.from_dict(NARROW)).save_pretrained(own)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 2, "hello": 3}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>").save_pretrained(own)
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "hello"}\n\n{"text": "world"}\n', "utf-8")
    plan = chosen(asked(**LENGTHS), method="full", optimizer="adamw", packing="padded")
    script = loaded(plan.to("peft"), tmp_path)
    given = ["--model", str(own), "--data", str(data), "--steps", "2"]
    script.main(given)
    assert len(losses(capsys.readouterr().out)) == 2
    seen = script.examples(str(data), str(own), 8)
    assert sorted(next(seen) for _ in range(2)) == [[0, 2], [3, 2]]
    with pytest.raises(SystemExit):
        script.main(["--data", str(data)])


@pytest.mark.parametrize("optimizer", ["adamw-8bit", "paged-adamw-8bit"])
def test_states_in_8_bits_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], optimizer: str
) -> None:
    pytest.importorskip("bitsandbytes")
    plan = chosen(asked(), method="full", optimizer=optimizer, microbatch=1)
    loaded(plan.to("peft"), tmp_path).main(["--steps", "2"])
    assert len(losses(capsys.readouterr().out)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        (1, {"method": "full", "optimizer": "adamw", "microbatch": 2}),
        (2, {"method": "full", "optimizer": "adamw", "sharding": "full", "recompute": True}),
        (1, {"method": "lora", "microbatch": 2, "recompute": True}),
        (2, {"method": "lora", "sharding": "none", "microbatch": 1}),
    ],
)
def test_the_script_does_what_was_simulated(
    tmp_path: Path, devices: int, wanted: dict[str, Any]
) -> None:
    """Recorded as it stands, its peak and its step are those of the plan."""
    if wanted["method"] != "full":
        pytest.importorskip("peft")
    question = asked(devices=devices, seq=256)
    plan = chosen(question, **wanted)
    assert plan.best is not None
    path = tmp_path / "tune.py"
    path.write_text(plan.to("peft"), "utf-8")
    run = gpuscope.predict(str(path), on="h100" if devices == 1 else f"{devices}xh100")
    simulated = Simulator(question).judge(plan.best.candidate)
    assert run.peak_memory_bytes == pytest.approx(simulated.peak_bytes, rel=0.01)
    # The host sets the pace of so short a step, and peft's own layers keep it a little longer.
    assert run.step_time_s == pytest.approx(simulated.step_s, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wanted",
    [
        {"method": "full", "optimizer": "adamw", "sharding": "full", "recompute": True},
        {"method": "full", "optimizer": "adamw-8bit", "sharding": "full"},
        {"method": "lora", "sharding": "none"},
        {"method": "qlora", "sharding": "full", "recompute": True},
    ],
)
def test_two_ranks_learn_what_one_does(tmp_path: Path, wanted: dict[str, Any]) -> None:
    from safetensors.torch import load_file

    for package in ("accelerate", "peft", "bitsandbytes"):
        pytest.importorskip(package)
    lone = {name: value for name, value in wanted.items() if name != "sharding"}
    kept = []
    for devices, own in ((1, lone | {"microbatch": 2}), (2, wanted | {"microbatch": 1})):
        text = chosen(asked(devices=devices, seq=32), **own).to("peft")
        begun, ended = text.index("CONFIG ="), text.index("\n\n", text.index("CONFIG ="))
        text = f"{text[:begun]}CONFIG = LlamaConfig.from_dict({NARROW}){text[ended:]}"
        folder = tmp_path / str(devices)
        folder.mkdir()
        path = folder / "tune.py"
        path.write_text(text, "utf-8")
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        line = [sys.executable, *(start if devices > 1 else []), str(path), "--steps", "3"]
        process = subprocess.Popen([*line, "--save", str(folder)])
        try:
            assert process.wait(timeout=600) == 0
        finally:
            process.terminate()  # a launcher ends its ranks, too
            process.wait()
        (found,) = folder.glob("*model.safetensors")
        kept.append(load_file(found))
    one, two = kept
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        apart = (two[name].float() - tensor.float()).norm() / tensor.float().norm().clamp(1e-3)
        assert float(apart) < 0.1, name


def test_what_it_cannot_do_is_refused() -> None:
    plan = chosen(asked(), method="full")
    with pytest.raises(UnknownNameError, match="axolotl") as error:
        plan.to("axolotl")
    assert "peft" in str(error.value.next_step)
    with pytest.raises(
        UnsupportedError, match="--for vllm does not go with --task finetune"
    ) as refused:
        plan.to("vllm")
    assert "peft" in str(refused.value.next_step)
    with pytest.raises(UnsupportedError, match="does not run on"):
        asked(on="tpu-v5p", framework="peft")
    found, out = candidates(asked(on="tpu-v5p,h100", framework="peft"))
    assert {each.cluster.device.id for each in found} == {"nvidia-h100-sxm"}
    assert out[0].kind == "framework"


def test_where_nothing_fits_nothing_is_written() -> None:
    plan = answered(asked(), None)
    with pytest.raises(DoesNotFitError, match="nothing is written for peft") as error:
        plan.to("peft")
    assert "without --for" in str(error.value.next_step)
    assert error.value.exit_code == 3


def test_the_answer_shows_it() -> None:
    plan = chosen(asked(), method="lora")
    *_, last = explained_tuning(plan, "qlora", "peft").sections
    (code,) = last.blocks
    assert code.language == "python"  # type: ignore[union-attr]
    text = "\n".join(line.text for line in code.lines)  # type: ignore[union-attr]
    assert text + "\n" == plan.to("peft")


def test_all_optimizers_are_known() -> None:
    """A new one in the space has to be written, too."""
    question = asked(devices=2, global_batch=32)
    for method, sharding in product(OF_METHOD, ("none", "full")):
        for optimizer in OF_METHOD[method]:
            wanted = {"method": method, "optimizer": optimizer, "sharding": sharding}
            assert "lr=RATE" in chosen(question, **wanted).to("peft")
