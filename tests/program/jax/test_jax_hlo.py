"""XLA's text: shapes with layouts, operands, what is donated, lines."""

import pytest
from jax_compiled_steps import STEPS, compiled_step

from gpuscope.errors import CaptureError
from gpuscope.program.jax.hlo import parse

SMALL = """\
HloModule jit_f, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }, entry={}

FileNames
1 "/home/me/step.py"

FileLocations
1 {file_name_id=1 function_name_id=1 line=18 end_line=18 column=2 end_column=63}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %main (a: f32[4,8], b: bf16[8]) -> (bf16[8], f32[4]) {
  %a = f32[4,8]{0,1:T(8)} parameter(0)
  %b = bf16[8]{0} parameter(1)
  %c = (f32[4]{0}, /*index=1*/u8[0]{0}) custom-call(%a, %b), custom_call_target="say(\\"x\\")", \
metadata={op_name="jit(f)/up/dot" stack_frame_id=1}, backend_config={"n":{"k":"1"},"q":[1,2]}
  %d = f32[4]{0} get-tuple-element(%c), index=0
  ROOT %t = (bf16[8]{0}, f32[4]{0}) tuple(%b, %d)
}
"""


def test_an_instruction_is_read_whole() -> None:
    module = parse(SMALL)
    a, b, call, got, root = module.computations[module.entry].instructions
    assert (a.array.shape, a.array.stride, a.array.nbytes) == ((4, 8), (1, 4), 128)
    assert (b.array.dtype, b.parameter) == ("bfloat16", 1)
    assert call.operands == ("a", "b")
    assert [each.shape for each in call.arrays] == [(4,), (0,)]
    assert call.config == {"n": {"k": "1"}, "q": [1, 2]}
    assert call.scope == "jit(f)/up/dot"
    assert module.lines[call.frame] == "step.py:18"
    assert got.attributes["index"] == "0"
    assert root.root
    assert module.aliases == ((0, 1),)


@pytest.mark.parametrize("name", STEPS)
def test_what_xla_writes_names_only_what_is_there(name: str) -> None:
    module = parse(compiled_step(name)[0].hlo)
    for computation in module.computations.values():
        known = computation.by_name
        for each in computation.instructions:
            assert set(each.operands) <= set(known), each.name
            called = each.called()
            assert not called or called in module.computations


@pytest.mark.parametrize("text", ["", "HloModule x", "nothing\nENTRY %m () -> f32[] {\n}\n"])
def test_what_is_no_module_is_refused(text: str) -> None:
    with pytest.raises(CaptureError, match="cannot be read"):
        parse(text)
