"""What goes wrong in the user's code becomes one clear error."""

from __future__ import annotations

import socket
import sys

import pytest
from captured import named, of, work

import gpuscope as gs
from gpuscope.errors import CaptureError, GpuscopeError, WorkloadError

torch = pytest.importorskip("torch")
nn = torch.nn


def error_of(build, kind=WorkloadError, **options) -> GpuscopeError:
    with pytest.raises(kind) as caught:
        of(build, **options)
    error = caught.value
    assert type(error) is kind
    assert error.what
    assert error.next_step
    assert "\n" not in error.what
    return error


def test_build_raises() -> None:
    def build():
        raise ValueError("no such size")

    error = error_of(build)
    assert error.what.startswith("build() raised ValueError (line ")
    assert __file__ in error.what
    assert error.why == "no such size"


def test_the_line_is_the_users_also_below_libraries() -> None:
    def build():
        nn.Linear(4, "a")

    line = build.__code__.co_firstlineno + 1
    assert f"line {line} of {__file__}" in error_of(build).what


@pytest.mark.parametrize("result", [None, 3, "step", torch.zeros(1)], ids=repr)
def test_build_returns_no_step(result) -> None:
    error = error_of(lambda: result)
    assert "did not return a step" in error.what
    assert type(result).__name__ in error.why


def test_the_step_wants_arguments() -> None:
    error = error_of(lambda: lambda batch, scale=1.0: batch)
    assert error.what == "The first step needs arguments: batch."
    assert "batch" not in error.why


def test_build_wants_arguments() -> None:
    assert "needs arguments: model" in error_of(lambda model: None).what


def test_optional_arguments_are_fine() -> None:
    def build(size=4, *args, **kwargs):
        x = torch.randn(size, device="cuda")
        return lambda scale=2.0: x * scale

    assert work(of(build)) == ["mul"]


def test_the_first_step_raises(capfd) -> None:
    def build():
        layer = nn.Linear(4, 4).cuda()
        x = torch.randn(2, 5, device="cuda")
        return lambda: layer(x)

    error = error_of(build)
    assert error.what.startswith("The first step raised RuntimeError")
    assert "[2, 5] X [4, 4]" in error.why
    assert capfd.readouterr() == ("", "")  # torch does not print its own traceback


def test_only_the_second_step_raises() -> None:
    batches = []

    def build():
        batches.append(iter([torch.randn(2, 3)]))
        return lambda: next(batches[-1]).cuda()

    error = error_of(build)
    assert error.what.startswith("The second step raised StopIteration")
    assert "two steps" in error.next_step


def test_the_step_does_nothing() -> None:
    assert "no PyTorch work" in error_of(lambda: lambda: None).what


def test_a_file_is_missing() -> None:
    def build():
        with open("not-there.txt") as file:
            return file.read

    error = error_of(build)
    assert "not-there.txt" in error.why
    assert "path" in error.next_step


def test_a_module_is_missing() -> None:
    def build():
        import a_module_that_is_not_there  # type: ignore[import-not-found]

        return a_module_that_is_not_there

    assert "a_module_that_is_not_there" in error_of(build).next_step


def test_build_ends_the_process() -> None:
    assert "SystemExit" in error_of(lambda: sys.exit(3)).what


def test_an_interrupt_stays_an_interrupt() -> None:
    def build():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        of(build)


def test_downloads_are_refused_before_they_begin() -> None:
    def build():
        import urllib.request

        urllib.request.urlopen("http://example.com/weights.bin")

    error = error_of(build)
    assert "download from example.com" in error.what
    assert "configuration" in error.next_step


def test_a_connection_by_address_is_refused_too() -> None:
    def build():
        with socket.socket() as s:
            s.connect(("192.0.2.1", 80))

    assert "192.0.2.1" in error_of(build).what


def test_sockets_within_this_machine_work() -> None:
    def build():
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen()
            client.connect(server.getsockname())
        x = torch.randn(2, device="cuda")
        return lambda: x * 2

    assert work(of(build)) == ["mul"]


def test_pretrained_weights_of_transformers(tmp_path, monkeypatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HOME", str(tmp_path))

    def build():
        return transformers.AutoModel.from_pretrained("nobody/no-such-model", cache_dir=tmp_path)

    error = error_of(build)
    assert "huggingface" in error.what
    assert "from_config" in error.next_step


def test_a_failed_look_up_that_the_code_survives_is_no_error() -> None:
    def build():
        with pytest.raises(OSError, match="closed"):
            socket.getaddrinfo("example.com", 80)
        x = torch.randn(2, device="cuda")
        return lambda: x * 2

    assert work(of(build)) == ["mul"]


@pytest.mark.parametrize(
    ("call", "name"), [(lambda: torch.cuda.nccl.unique_id(), "torch.cuda.nccl.unique_id")]
)
def test_parts_of_torch_cuda_without_a_stand_in_are_named(call, name) -> None:
    if torch.cuda.is_available():
        pytest.skip("this torch has them")
    assert name in error_of(lambda: call()).what


class TestMixedDevices:
    def test_the_input_was_forgotten(self) -> None:
        def build():
            layer = nn.Linear(4, 4).cuda()
            x = torch.randn(2, 4)
            return lambda: layer(x)

        error = error_of(build)
        assert "same device" in error.why
        assert "(2, 4)" in error.why
        assert ".cuda()" in error.next_step

    def test_the_model_was_forgotten(self) -> None:
        def build():
            layer = nn.Linear(4, 4)
            x = torch.randn(2, 4, device="cuda")
            return lambda: layer(x)

        assert "same device" in error_of(build).why

    def test_a_mask_in_the_step_was_forgotten(self) -> None:
        def build():
            x = torch.randn(4, 4, device="cuda")

            def step():
                mask = torch.ones(4, 4).tril()
                return x * mask

            return step

        assert "aten::mul" in error_of(build).why

    def test_a_tensor_from_before_was_forgotten(self) -> None:
        outside = torch.randn(2, 4)

        def build():
            layer = nn.Linear(4, 4).cuda()
            return lambda: layer(outside)

        assert "same device" in error_of(build).why

    def test_numbers_on_the_host_may_mix(self) -> None:
        def build():
            x = torch.randn(4, device="cuda")
            scale = torch.tensor(2.0)
            return lambda: x * scale

        assert work(of(build)) == ["mul"]


@pytest.fixture(scope="module")
def shapeless():
    """An operator that nobody told the shape of its result."""
    library = torch.library.Library("gpuscope_test", "DEF")
    library.define("shapeless(Tensor x) -> Tensor")
    library.impl("shapeless", lambda x: x + 1, "CPU")
    yield torch.ops.gpuscope_test.shapeless
    library._destroy()


def test_an_operator_without_a_shape_rule_is_estimated_and_named(shapeless) -> None:
    def build():
        x = torch.randn(4, 4, device="cuda")
        return lambda: shapeless(x) * 2

    program = of(build)
    assert program.unsupported == ("gpuscope_test::shapeless",)
    assert [op.name for op in program.ops] == ["gpuscope_test::shapeless", "aten::mul"]
    assert program.ops[0].outputs[0].shape == (4, 4)


def test_strict_refuses_it(shapeless) -> None:
    def build():
        x = torch.randn(4, 4, device="cuda")
        return lambda: shapeless(x)

    error = error_of(build, CaptureError, strict=True)
    assert "gpuscope_test::shapeless" in error.what
    assert "register_fake" in error.next_step


def test_an_operator_with_a_fake_is_no_problem() -> None:
    @torch.library.custom_op("gpuscope_test2::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])

    doubled.register_fake(lambda x: x.new_empty((2 * x.shape[0], *x.shape[1:])))

    def build():
        x = torch.randn(4, 4, device="cuda")
        return lambda: doubled(x)

    program = of(build, strict=True)
    assert named(program, "doubled")[0].outputs[0].shape == (8, 4)
    assert not program.unsupported


def test_lazy_layers_from_before_are_explained() -> None:
    layer = nn.LazyLinear(4)
    assert "LazyLinear" in error_of(lambda: layer.cuda()).next_step


def test_a_message_of_several_lines_is_told_whole_and_bounded() -> None:
    def fails(lines: int):
        def build():
            raise ValueError("\n".join(f"line {n}" for n in range(lines)))

        return build

    with pytest.raises(WorkloadError) as few:
        gs.capture(fails(3))
    assert few.value.why == "line 0 line 1 line 2"
    with pytest.raises(WorkloadError) as many:
        gs.capture(fails(50))
    assert many.value.why.endswith("line 7 …")


def test_what_fails_in_a_stand_in_is_not_blamed_on_the_program() -> None:
    from torch._subclasses.fake_tensor import FakeTensor

    def build():
        raise RuntimeError(f"no rule for a {FakeTensor.__name__}")

    with pytest.raises(WorkloadError) as caught:
        gs.capture(build)
    assert "gpuscope cannot follow" in caught.value.next_step
    assert "尚不能跟踪" in caught.value.next_step.to("zh")
    with pytest.raises(WorkloadError) as own:
        gs.capture(lambda: 1 / 0)
    assert own.value.next_step.startswith("Call build()() in Python")
