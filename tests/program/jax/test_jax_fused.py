"""Fusions: bytes that they need, rows and columns, in-place updates."""

from gpuscope.program.jax.hlo import parse
from gpuscope.program.jax.walk import Value, Walk

BODY = """\
HloModule jit_f, is_scheduled=true

%fused (p0: f32[12,1024,1024], p1: s32[], p2: f32[1,1024,1024]) -> f32[12,1024,1024] {
  %p0 = f32[12,1024,1024]{2,1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %p2 = f32[1,1024,1024]{2,1,0} parameter(2)
  %z = s32[] constant(0)
  %u = f32[1,1024,1024]{2,1,0} multiply(%p2, %p2)
  ROOT %r = f32[12,1024,1024]{2,1,0} dynamic-update-slice(%p0, %u, %p1, %z, %z)
}

%cut (q0: f32[12,1024,1024], q1: s32[]) -> f32[1024,1024] {
  %q0 = f32[12,1024,1024]{2,1,0} parameter(0)
  %q1 = s32[] parameter(1)
  %y = s32[] constant(0)
  %e = f32[12,1024,1024]{2,1,0} exponential(%q0)
  %s = f32[1,1024,1024]{2,1,0} dynamic-slice(%e, %q1, %y, %y), dynamic_slice_sizes={1,1024,1024}
  ROOT %b = f32[1024,1024]{1,0} bitcast(%s)
}

%add (l: f32[], m: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %m = f32[] parameter(1)
  ROOT %n = f32[] add(%l, %m)
}

%rows (v0: f32[512,4096]) -> f32[512] {
  %v0 = f32[512,4096]{LAYOUT} parameter(0)
  %k = f32[] constant(0)
  ROOT %g = f32[512]{0} reduce(%v0, %k), dimensions={1}, to_apply=%add
}

ENTRY %main (a: f32[12,1024,1024], i: s32[], c: f32[1,1024,1024], d: f32[512,4096]) -> f32[512] {
  %a = f32[12,1024,1024]{2,1,0} parameter(0)
  %i = s32[] parameter(1)
  %c = f32[1,1024,1024]{2,1,0} parameter(2)
  %d = f32[512,4096]{LAYOUT} parameter(3)
  %put = f32[12,1024,1024]{2,1,0} fusion(%a, %i, %c), kind=kLoop, calls=%fused
  %got = f32[1024,1024]{1,0} fusion(%put, %i), kind=kLoop, calls=%cut
  ROOT %sum = f32[512]{0} fusion(%d), kind=kInput, calls=%rows
}
"""


def _ops(layout: str = "1,0") -> list:
    module = parse(BODY.replace("LAYOUT", layout))
    walk, entry = Walk(module), module.computations["main"]
    for each in entry.parameters:
        walk.values[each.name] = (Value(each.array, walk.buffer(each.array.nbytes, "input", "")),)
    walk.run(entry)
    return walk.ops


LAYER = 4 * 1024 * 1024


def test_an_update_in_place_moves_what_it_updates() -> None:
    put = _ops()[0]
    assert sum(spec.nbytes for spec in put.inputs) == LAYER + 4
    assert sum(spec.nbytes for spec in put.outputs) == LAYER


def test_a_slice_is_all_that_is_read_through_what_is_computed() -> None:
    got = _ops()[1]
    assert sum(spec.nbytes for spec in got.inputs) == LAYER + 4
    assert got.args["operators"] == ("exp", "index")


def test_rows_and_columns_follow_the_layout() -> None:
    inner, outer = _ops()[2].args, _ops("0,1")[2].args
    assert (inner["rows"], inner["columns"], inner["reduction"]) == (512, 4096, "inner")
    assert (outer["rows"], outer["columns"], outer["reduction"]) == (512, 4096, "outer")
