"""One module of transformers without the package's own start, and the package as ever after."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")


def run(code: str) -> str:
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr[-2000:]
    return out.stdout.strip()


def test_package_stays_deferred_until_asked_and_is_whole_then() -> None:
    code = """
import sys
from gpuscope.program.models.deferred_import import DeferredPackage, import_transformers
module = import_transformers("models.gpt2.modeling_gpt2")
assert type(sys.modules["transformers.models"]) is DeferredPackage
import transformers
first = type(transformers) is DeferredPackage
from transformers import AddedToken
import tokenizers
assert AddedToken is tokenizers.AddedToken
assert first is (type(sys.modules["transformers"]) is DeferredPackage), "its home is known"
from transformers import AutoConfig, GPT2LMHeadModel, LlamaConfig
assert GPT2LMHeadModel is module.GPT2LMHeadModel
assert transformers.GPT2LMHeadModel is module.GPT2LMHeadModel
assert transformers.models.gpt2.GPT2LMHeadModel is module.GPT2LMHeadModel
assert transformers.AddedToken is AddedToken
assert transformers.__version__ == sys.modules["transformers"].__version__
assert AutoConfig.for_model("llama").__class__ is LlamaConfig
whole = sys.modules["transformers"]
assert type(whole) is not DeferredPackage
import_transformers("models.bert.modeling_bert")
assert sys.modules["transformers"] is whole, "one that is loaded already is left alone"
try:
    transformers.no_such_name
except AttributeError:
    print("deferred" if first else "whole")
"""
    assert run(code) in ("deferred", "whole")


def test_unknown_submodule_raises_as_ever() -> None:
    code = """
from gpuscope.program.models.deferred_import import import_transformers
try:
    import_transformers("models.no_such_model.modeling_no_such_model")
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert run(code) == "transformers.models.no_such_model"


def test_a_model_newer_than_transformers_is_named_as_that() -> None:
    """It was "a mistake in gpuscope"."""
    from gpuscope.errors import UnsupportedError
    from gpuscope.program.models.transformers_spec import TransformersSpec

    spec = TransformersSpec(package="of_tomorrow", config="Config", model="Model")
    with pytest.raises(UnsupportedError, match="does not know this model") as found:
        spec.load()
    assert "pip install --upgrade transformers" in str(found.value.next_step)
