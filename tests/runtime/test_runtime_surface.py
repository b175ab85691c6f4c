"""What patches import: small, light, and found under the names of the previous version, too."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import gpuscope as gs
import gpuscope.runtime

ROOT = Path(__file__).resolve().parents[2]

TRAIN = dedent("""\
    import torch
    from torch import nn

    torch.manual_seed(0)


    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(3))

        def forward(self, x):
            chosen = torch.arange(len(x)) % 3
            out = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                (token,) = torch.where(chosen == number)
                out[token] += expert(x[token])
            return out


    model = nn.Sequential(Layer(), nn.Linear(4, 5001))
    loss = model(torch.ones(512, 4)).logsumexp(1).sum()
    print(round(loss.item(), 1))
    """)

PATCH = """\
--- a/train.py
+++ b/train.py
@@ -1,5 +1,8 @@
 import torch
 from torch import nn
+from {experts} import add_experts
+from {late} import late
+from {pad} import pad_output

 torch.manual_seed(0)

@@ -12,12 +15,11 @@
     def forward(self, x):
         chosen = torch.arange(len(x)) % 3
         out = torch.zeros_like(x)
-        for number, expert in enumerate(self.experts):
-            (token,) = torch.where(chosen == number)
-            out[token] += expert(x[token])
+        add_experts(out, self.experts, x, chosen)
         return out


 model = nn.Sequential(Layer(), nn.Linear(4, 5001))
+pad_output(model)  # 5001 -> 5056 inside of the product
 loss = model(torch.ones(512, 4)).logsumexp(1).sum()
-print(round(loss.item(), 1))
+print(round(late(loss), 1))
"""

FORMER = {
    "experts": "gpuscope.advice.grouped_loop",
    "late": "gpuscope.advice.late",
    "pad": "gpuscope.advice.changes.pad_vocabulary",
}
"""What version 0.1 wrote."""

NOW = dict.fromkeys(FORMER, "gpuscope.runtime")


def _python(*args: str, cwd: Path | None = None) -> str:
    ran = subprocess.run(
        [sys.executable, *args], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def _git_apply(patch: str, folder: Path) -> None:
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch, text=True, check=True)


@pytest.mark.parametrize("homes", [FORMER, NOW], ids=["0.1", "now"])
def test_a_patched_script_runs(homes: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(TRAIN)
    _git_apply(PATCH.format(**homes), tmp_path)
    assert "add_experts(out" in file.read_text()
    (tmp_path / "before.py").write_text(TRAIN)
    both = "import runpy; [runpy.run_path(name) for name in ('before.py', 'train.py')]"
    before, after = _python("-c", both, cwd=tmp_path).split()
    assert after == before


def test_a_recorded_patch_runs(tmp_path: Path) -> None:
    """The ladder of the experts, as version 0.1 wrote it; captured, for it needs a GPU."""
    place = Path("benchmarks/ladders/naive/experts.py")
    (tmp_path / place.parent).mkdir(parents=True)
    (tmp_path / place).write_text((ROOT / place).read_text())
    patch = (ROOT / "benchmarks/results/ladders/experts/patch.diff").read_text()
    assert FORMER["experts"] in patch
    _git_apply(patch, tmp_path)
    program = gs.capture(f"{tmp_path / place}:build")
    assert any("grouped_mm" in op.name for op in program.ops)


def test_what_patches_write_is_public() -> None:
    from gpuscope.advice.changes import pad_vocabulary
    from gpuscope.advice.source import expert_loops, host_reads

    for module in (pad_vocabulary, expert_loops, host_reads):
        assert "from gpuscope.runtime import" in inspect.getsource(module)
        assert '"from gpuscope.advice' not in inspect.getsource(module)


@pytest.mark.parametrize("name", gpuscope.runtime.__all__)
def test_each_is_a_documented_function(name: str) -> None:
    function = getattr(gpuscope.runtime, name)
    assert inspect.isfunction(function) or inspect.isclass(function)
    assert "Args:" in (function.__doc__ or "")


def test_it_needs_nothing_of_the_rest() -> None:
    code = (
        "import sys, gpuscope.runtime as r\n"
        "print('torch' in sys.modules)\n"
        "all(getattr(r, name) for name in r.__all__)\n"
        "own = {m.split('.')[1] for m in sys.modules if m.startswith('gpuscope.')}\n"
        "heavy = {'transformers', 'pandas', 'scipy', 'pyarrow', 'rich'} & set(sys.modules)\n"
        "print(own, heavy)"
    )
    assert _python("-c", code).split("\n") == ["False", "{'runtime'} set()"]
