"""Programs under changes: captured, transformed, folded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny_changes import Tiny, build, half, known

import gpuscope as gs
from gpuscope.advice.forecast.changed_programs import ChangedPrograms
from gpuscope.errors import UnsupportedError


class _Named(Tiny):
    def transform(self, program):
        return replace(program, name="transformed")


def test_a_change_takes_hold_of_the_code():
    with known(Tiny("half", half)):
        programs = ChangedPrograms(build, gs.parse_target("h200"))
        plain, changed = programs.of(), programs.of(["half"])
    assert not any(op.outputs and op.outputs[0].dtype == "bfloat16" for op in plain.ops)
    assert any(op.outputs and op.outputs[0].dtype == "bfloat16" for op in changed.ops)
    assert programs.of() is plain


def test_a_captured_program_takes_only_transforms():
    program = gs.capture(build)
    with known(Tiny("half", half), _Named("named")):
        programs = ChangedPrograms(program, gs.parse_target("h200"))
        assert programs.of(["named"]).name == "transformed"
        with pytest.raises(UnsupportedError, match="code"):
            programs.of(["half"])


def test_a_jax_step_takes_what_its_build_is_asked_for(tmp_path):
    path = tmp_path / "step.py"
    path.write_text("import jax\n\ndef build(batch=4):\n    return None\n")
    programs = ChangedPrograms(f"{path}:build", gs.parse_target("h200"))
    assert programs.door == "jax"
    assert programs.jax.batch == ("batch", 4)


def test_a_folded_model_is_seen_whole():
    options = gs.WorkloadOptions(task="train", layers=6, batch=1, seq=64)
    with known():
        programs = ChangedPrograms("gpt2", gs.parse_target("h200"), options)
        program = programs.of()
    plain = gs.capture("gpt2", options=options)
    # Sites are lines of this file.
    assert [replace(o, site="") for o in program.ops] == [replace(o, site="") for o in plain.ops]
    (model,) = programs.seen.models
    assert model.repeated == ("GPT2Block", 6)
    assert model.parameters == program.parameters
    assert programs.seen.file == ""


def test_what_a_combination_is_made_of():
    programs = ChangedPrograms(build, gs.parse_target("h200"))
    none, names = frozenset(), {"compile-reduce-overhead", "compile-optimizer"}
    # Before the workload is seen, nothing is known to be made of something else.
    assert programs.sources(names) == {frozenset(names)}
    assert not programs.known(())
    programs.of()
    assert programs.sources(names) == {
        none,
        frozenset({"compile"}),
        frozenset({"compile-optimizer"}),
    }
    assert programs.sources({"tf32", "checkpoint"}) == {frozenset({"checkpoint"})}
    assert programs.sources({"fused-optimizer"}) == {frozenset({"fused-optimizer"})}


def test_a_program_of_another_process_is_not_captured_again():
    program = gs.capture(build)
    with known(Tiny("half", half)):
        programs = ChangedPrograms(build, gs.parse_target("h200"))
        programs.take(["half"], program)
        assert programs.of(["half"]) is program
