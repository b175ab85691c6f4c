"""Reads in a step: which can go, and what stands in their place."""

from __future__ import annotations

import ast

import pytest

from gpuscope.advice.source.edits import applied
from gpuscope.advice.source.host_reads import host_reads, read_edits


def _step(*lines: str) -> str:
    return "def step():\n    loss.backward()\n" + "".join(f"    {line}\n" for line in lines)


def _function(text: str) -> ast.FunctionDef:
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def _after(*lines: str) -> list[str]:
    text = _step(*lines)
    new = applied(text, read_edits("f.py", text, _function(text)))
    ast.parse(new)
    return [line.removeprefix("    ") for line in new.splitlines()[2:]]


@pytest.mark.parametrize(
    ("line", "use", "after"),
    [
        ("return loss.item()", "tensor", "return loss.detach().clone()"),
        ("return float(loss)", "tensor", "return loss.detach().clone()"),
        ("return loss.detach().item()", "tensor", "return loss.detach().clone()"),
        ('return {"loss": s["a"].item()}', "tensor", 'return {"loss": s["a"].detach().clone()}'),
        ("return (a + b).item(), 1", "tensor", "return (a + b).detach().clone(), 1"),
        ("losses.append(loss.item())", "tensor", "losses.append(loss.detach().clone())"),
        ("total += loss.item() * n", "tensor", "total += loss.detach().clone() * n"),
        ("print(loss.item())", "late", "print(late(loss))"),
        ("print('loss', loss)", "late", "print('loss', late(loss))"),
        ("print(f'{loss.item():.3f}')", "late", "print(f'{late(loss):.3f}')"),
        ("print(f'{loss:.3f}')", "late", "print(f'{late(loss):.3f}')"),
        ("bar.set_postfix(loss=loss.item())", "late", "bar.set_postfix(loss=late(loss))"),
        ("w.add_scalar('a', loss.item(), i)", "late", "w.add_scalar('a', late(loss), i)"),
    ],
)
def test_a_wait_goes(line: str, use: str, after: str) -> None:
    (read,) = host_reads(_function(_step(line)))
    assert (read.use, read.line, read.removable) == (use, 3, True)
    assert _after(line) == [after]


@pytest.mark.parametrize(
    ("lines", "use"),
    [
        (("if loss.item() > 3:", "    pass"), "decides"),
        (("while not loss.item() < 3:", "    pass"), "decides"),
        (("x = 1 if loss.item() else 2",), "decides"),
        (("assert loss.item() == loss.item()",), "decides"),
        (("v = loss.item()", "if v > 3:", "    pass"), "decides"),
        (("x = f(loss.item())",), "unknown"),
        (("state['a'] = loss.item()",), "unknown"),
        (("scheduler.step(loss.item())",), "unknown"),
        (("v = loss.item()", "v = 2", "return v"), "unknown"),
        (("nonlocal v", "v = loss.item()"), "unknown"),
    ],
)
def test_a_wait_stays(lines: tuple[str, ...], use: str) -> None:
    text = _step(*lines)
    reads = host_reads(_function(text))
    assert reads
    assert {read.use for read in reads} == {use}
    assert not read_edits("f.py", text, _function(text))


def test_a_name_in_between_is_followed() -> None:
    assert _after("v = loss.item()", "losses.append(v)", "return v") == [
        "v = loss.detach().clone()",
        "losses.append(v)",
        "return v",
    ]
    assert _after("v = loss.item()", "print(f'{v:.2f}')", "return v") == [
        "v = late(loss)",
        "print(f'{v:.2f}')",
        "return v",
    ]


def test_a_bare_synchronisation_goes_unless_a_clock_is_read() -> None:
    assert _after("torch.cuda.synchronize()", "return 1") == ["return 1"]
    assert _after("if x:", "    torch.cuda.synchronize()") == ["if x:", "    pass"]
    lines = ("torch.cuda.synchronize()", "end = time.perf_counter()")
    (read,) = host_reads(_function(_step(*lines)))
    assert read.use == "timed"
    assert _after(*lines) == list(lines)


def test_several_reads_of_a_step() -> None:
    assert _after("print(loss.item())", "if x.item():", "    y()", "return loss.item()") == [
        "print(late(loss))",
        "if x.item():",
        "    y()",
        "return loss.detach().clone()",
    ]
