"""What libraries of PyTorch do otherwise with fakes is put right."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gpuscope.program.capture import capture  # noqa: E402


def test_a_profiler_of_the_users_own_records_nothing(tmp_path, capfd):
    from torch.profiler import ProfilerActivity, profile, schedule

    def build():
        x = torch.ones(4, device="cuda")
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        when = schedule(wait=0, warmup=1, active=1)
        told = []
        profiler = profile(
            activities=activities, schedule=when, on_trace_ready=lambda p: told.append(p)
        )
        profiler.start()

        def step():
            y = x * 2
            profiler.step()
            profiler.export_chrome_trace(str(tmp_path / "trace.json"))
            print(profiler.key_averages().table(row_limit=3), end="")
            return y

        return step

    assert [op.name for op in capture(build).ops] == ["aten::mul"]
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
    before = torch.profiler.profiler._KinetoProfile.start_trace
    assert before.__name__ == "start_trace"


def test_distributions_check_their_parameters():
    def build():
        p = torch.ones(8, 2, device="cuda")

        def step():
            drawn = torch.distributions.Categorical(p.softmax(-1))
            return drawn.log_prob(drawn.sample())

        return step

    assert any(op.name == "aten::multinomial" for op in capture(build).ops)


def test_sparse_gradients_hold_the_rows_that_were_looked_up():
    def build():
        table = torch.nn.Embedding(10, 4, sparse=True).cuda()
        optimizer = torch.optim.SparseAdam(table.parameters())
        x = torch.zeros(3, dtype=torch.int64, device="cuda")

        def step():
            table(x).sum().backward()
            optimizer.step()

        return step

    ops = [op for op in capture(build).ops if op.phase == "optimizer"]
    assert [op.outputs[0].shape for op in ops if op.name == "aten::div_"] == [(3, 4)]
    # Rows that may be named twice are added by index (aten/src/ATen/native/sparse/cuda/
    # SparseCUDATensorMath.cu): both moments and the table.
    written = [op for op in ops if op.name == "aten::index_add_"]
    assert [op.inputs[0].shape for op in written] == [(10, 4)] * 3


def test_another_library_gets_no_memory_that_is_none():
    from torch.utils import dlpack

    from gpuscope.errors import CaptureError

    def build(hand_over):
        x = torch.ones(4, device="cuda")
        return lambda: hand_over(x * 2)

    again = capture(lambda: build(lambda x: dlpack.from_dlpack(dlpack.to_dlpack(x)) + 1))
    assert [op.name for op in again.ops if not op.view] == ["aten::mul", "aten::add"]
    assert again.ops[-1].inputs[0].storage == again.ops[0].outputs[0].storage
    with pytest.raises(CaptureError, match="another library"):
        capture(lambda: build(lambda x: x.__dlpack__()))
