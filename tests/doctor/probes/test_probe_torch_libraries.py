from __future__ import annotations

import json
import subprocess
import sys

from gpuscope.doctor.probes.torch_libraries import loaded_libraries, pins

MAPS = """\
7f00-7f01 r--p 00000000 fd:01 11   /opt/x/site-packages/nvidia/cudnn/lib/libcudnn.so.9
7f01-7f02 r-xp 00001000 fd:01 11   /opt/x/site-packages/nvidia/cudnn/lib/libcudnn.so.9
7f03-7f04 r-xp 00001000 fd:01 12   /opt/x/torch/lib/libcudart-9335f6a2.so.12 (deleted)
7f05-7f06 r-xp 00001000 fd:01 13   /usr/lib/libcublasLt.so.13.1.0
7f07-7f08 r-xp 00001000 fd:01 14   /opt/x/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9
7f09-7f0a r-xp 00001000 fd:01 15   /usr/lib/libze_loader.so.1
7f0b-7f0c r-xp 00001000 fd:01 16   /usr/lib/libcudadebugger.so.1
7f0d-7f0e rw-p 00000000 00:00 0    [heap]
7f0f-7f10 rw-p 00000000 00:00 0
7f11-7f12 rw-s 00000000 00:05 99   /dev/nvidia0
"""


def test_libraries_are_found_in_the_maps_each_once() -> None:
    assert [path.rpartition("/")[2] for path in loaded_libraries(MAPS)] == [
        "libcudnn.so.9",
        "libcudnn_ops.so.9",
        "libcudart-9335f6a2.so.12",
        "libcublasLt.so.13.1.0",
        "libze_loader.so.1",
    ]
    assert loaded_libraries("") == []


def test_pins_are_the_exact_versions_of_what_must_fit() -> None:
    assert pins(
        [
            'nvidia-cudnn-cu13==9.19.0.56; platform_system == "Linux"',
            "triton==3.6.0 ; sys_platform == 'linux'",
            'cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"',
            "nvidia_nccl_cu13==2.28.9",
            "sympy>=1.13.3",
            "filelock",
            'optree>=0.13.0; extra == "optree"',
            'nvidia-x==1; extra == "more"',
        ]
    ) == {
        "cuda-toolkit": "13.0.2",
        "nvidia-cudnn-cu13": "9.19.0.56",
        "nvidia-nccl-cu13": "2.28.9",
        "triton": "3.6.0",
    }
    assert pins([]) == {}


def test_the_real_one_answers_in_one_object() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "gpuscope.doctor.probes.torch_libraries"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(run.stdout.strip().splitlines()[-1])
    assert found["installed"] is True
    assert found["error"] is None
    assert found["packages"]["torch"].split("+")[0] == found["torch"].split("+")[0]
    assert all(device["works"] for device in found["devices"])


def test_without_pytorch_it_says_so() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from gpuscope.doctor.probes.torch_libraries import main; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    found = json.loads(run.stdout)
    assert found["installed"] is False
    assert "torch" in found["error"]
