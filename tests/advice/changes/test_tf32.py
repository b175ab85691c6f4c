"""TF32: the same operators, other kernels; only where products are in float32."""

import torch
from changed_cases import case_of

from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied
from gpuscope.advice.types import Seen


def _build(dtype=torch.float32):
    def build():
        model = torch.nn.Linear(1024, 1024, device="cuda", dtype=dtype)
        x = torch.randn(2048, 1024, device="cuda", dtype=dtype)

        def step():
            return model(x)

        return step

    return build


def test_the_transformed_program_is_the_one_that_changed_code_gives():
    change = find("tf32")
    plain, live = case_of(_build()), case_of(_build(), "tf32")
    made = change.transform(plain.program)
    assert made.settings == live.program.settings
    assert made.ops == live.program.ops
    assert plain.program.settings != live.program.settings
    assert live.run.device_busy_s < plain.run.device_busy_s / 2


def test_where_it_fits():
    change = find("tf32")
    assert change.fits(case_of(_build())).applies
    assert not change.fits(case_of(_build(), "tf32")).applies
    halved = change.fits(case_of(_build(torch.bfloat16)))
    assert not halved.applies
    assert not halved.relevant
    assert not change.fits(case_of(_build(), on="v100")).applies


def test_settings_are_put_back():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    case_of(_build(), "tf32")
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before


def test_the_line_goes_after_the_imports():
    text = "import torch\n\nx = 1\n"
    edits = find("tf32").edits({"a.py": text}, Seen(file="a.py"))
    assert applied(text, edits).splitlines()[1] == 'torch.set_float32_matmul_precision("high")'
    assert find("tf32").edits({}, Seen(file="a.py")) is None


def test_code_that_forbids_it_is_overruled():
    """A line of the build itself that sets the switch comes after ours."""

    def build():
        torch.backends.cudnn.allow_tf32 = False
        return _build()()

    program = case_of(build, "tf32").program
    assert program.settings["tf32_cudnn"]
    assert not case_of(build).program.settings["tf32_cudnn"]


def test_lines_that_forbid_it_are_turned_over():
    text = "import torch\n\n\ndef build():\n    torch.backends.cudnn.allow_tf32 = False\n"
    made = applied(text, find("tf32").edits({"a.py": text}, Seen(file="a.py")))
    assert "allow_tf32 = True" in made
    assert "False" not in made
