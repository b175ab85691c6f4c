from __future__ import annotations

from software_machines import SITE, cpu_only, findings, h200, severities

from gpuscope.doctor.checks.loaded_libraries import copies, strangers


def test_the_parts_of_cudnn_are_not_copies() -> None:
    assert copies([f"{SITE}/a/libcudnn.so.9", f"{SITE}/a/libcudnn_ops.so.9"]) == {}


def test_a_bundled_name_with_a_hash_is_the_same_library() -> None:
    two = [f"{SITE}/torch/lib/libcudart-9335f6a2.so.12", "/usr/local/cuda/lib64/libcudart.so.12.4"]
    assert copies(two) == {"libcudart": tuple(sorted(two))}


def test_a_library_loaded_twice_is_a_warning() -> None:
    machine = h200()
    machine.probes["torch_libraries"]["loaded"].append("/usr/lib/x86_64-linux-gnu/libnccl.so.2.18")
    (found,) = findings("loaded_libraries", machine)
    assert found.severity == "warning"
    assert "libnccl" in found.title


def test_a_library_from_elsewhere_is_a_note_but_the_drivers_is_not() -> None:
    machine = h200()
    machine.probes["torch_libraries"]["loaded"].append("/usr/local/cuda/lib64/libcufft.so.12")
    assert severities("loaded_libraries", machine) == ["note"]
    assert severities("loaded_libraries", h200()) == ["ok"]


def test_a_system_built_around_pytorch_has_no_strangers() -> None:
    assert strangers(["/usr/lib/libcublas.so.13", "/usr/lib/libcudnn.so.9"]) == ()


def test_processors_only_load_none() -> None:
    assert findings("loaded_libraries", cpu_only()) == []
