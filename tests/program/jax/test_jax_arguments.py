"""What a build function can be asked for, read without running it."""

import gpuscope as gs
from gpuscope.program.jax.arguments import arguments_of

TEXT = """\
import jax

raise RuntimeError("nobody runs this")


def build(batch=8, *, dtype="float32", table=[1], seq: int = 128):
    pass


def other():
    pass
"""


def test_plain_defaults_are_read_from_the_file(tmp_path):
    path = tmp_path / "step.py"
    path.write_text(TEXT)
    found = arguments_of(f"{path}:build")
    assert dict(found.defaults) == {"batch": 8, "dtype": "float32", "seq": 128}
    assert found.batch == ("batch", 8)
    assert dict(arguments_of(str(path)).defaults) == dict(found.defaults)
    assert not arguments_of(f"{path}:other").defaults
    assert not arguments_of(str(tmp_path / "absent.py")).defaults


def test_what_is_asked_for_counts(tmp_path):
    path = tmp_path / "step.py"
    path.write_text(TEXT)
    asked = arguments_of(f"{path}:build", gs.WorkloadOptions(batch=32, dtype="bfloat16"))
    assert asked.batch == ("batch", 32)
    assert asked.defaults["dtype"] == "bfloat16"


def test_of_a_function_itself():
    def build(batch_size=4, flag=True):
        pass

    found = arguments_of(build)
    assert found.function == "build"
    assert found.batch == ("batch_size", 4)
