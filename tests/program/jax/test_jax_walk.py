"""The walk: rounds of loops, memory that stays where it is, phases, modules."""

from jax_compiled_steps import program

from gpuscope.program.jax.hlo import parse
from gpuscope.program.jax.walk import FREE, INSTRUCTIONS, Walk, _module

LOOP = """\
HloModule jit_f, is_scheduled=true

%body (s: (s32[], f32[1024])) -> (s32[], f32[1024]) {
  %s = (s32[], f32[1024]{0}) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %x = f32[1024]{0} get-tuple-element(%s), index=1
  %y = f32[1024]{0} add(%x, %x)
  ROOT %r = (s32[], f32[1024]{0}) tuple(%n, %y)
}

ENTRY %main (a: f32[1024]) -> f32[1024] {
  %a = f32[1024]{0} parameter(0)
  %z = s32[] constant(0)
  %c = f32[1024]{0} copy(%a)
  %t = (s32[], f32[1024]{0}) tuple(%z, %c)
  %w = (s32[], f32[1024]{0}) while(%t), condition=%body, body=%body, backend_config=CONFIG
  ROOT %o = f32[1024]{0} get-tuple-element(%w), index=1
}
"""


def _walked(config: str) -> Walk:
    module = parse(LOOP.replace("CONFIG", config))
    walk, entry = Walk(module), module.computations["main"]
    walk.values["a"] = ()
    walk.run(entry)
    return walk


def test_a_loop_runs_its_known_rounds_in_one_place() -> None:
    walk = _walked('{"known_trip_count":{"n":"5"}}')
    copy, *rounds = walk.ops
    assert len(rounds) == 5
    places = {spec.storage for op in rounds for spec in (*op.inputs, *op.outputs)}
    assert places == {copy.outputs[0].storage}
    assert len({op.graph for op in walk.ops}) == 6
    assert not walk.notes


def test_many_rounds_are_folded() -> None:
    walk = _walked('{"known_trip_count":{"n":"100000"}}')
    assert [op.repeat for op in walk.ops] == [1, 100_000]


def test_an_unknown_number_of_rounds_is_told() -> None:
    walk = _walked("{}")
    assert len(walk.ops) == 2
    assert any("loop" in note for note in walk.notes)


def test_a_scan_has_its_rounds_forward_and_backward() -> None:
    made = program("loop")
    products = [op for op in made.ops if op.name in ("aten::mm", "aten::bmm")]
    by_phase = [sum(op.phase == each for op in products) for each in ("forward", "backward")]
    assert by_phase == [6, 12]
    flops = sum(2 * op.inputs[0].numel * op.inputs[1].shape[-1] for op in products)
    assert flops == 18 * 2 * 256 * 512 * 512


def test_modules_are_the_users_own_scopes() -> None:
    assert _module("jit(step)/jvp(Net)/block_0/attn/while/body/dot_general") == "Net.block_0.attn"
    assert _module("jit(step)/transpose(jvp())/mul") == ""


def test_every_file_of_instructions_is_found() -> None:
    names = set(INSTRUCTIONS.names())
    assert {"fusion", "dot", "all-reduce", "__cudnn$fmhaSoftmax", "sort"} <= names
    assert not names & FREE
