"""The matrix of nvidia-smi, as the tool prints it and as people paste it."""

from __future__ import annotations

import pytest

from gpuscope.doctor.topology.smi_matrix import read_matrix

TABS = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\tSYS\t48-63,176-191\t3\t\tN/A\n"
    "GPU1\tNV12\t X \tSYS\tNODE\t16-31,144-159\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\t X \tSYS\t\t\t\t\nNIC1\tSYS\tNODE\tSYS\t X \t\t\t\t\n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n"
)
"""As the tool prints it."""

BLANKS = (
    "        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity\n"
    "GPU0     X      NV12    PXB     SYS     48-63,176-191   3\n"
    "GPU1    NV12     X      SYS     NODE    16-31,144-159   1\n"
    "NIC0    PXB     SYS      X      SYS\n"
    "NIC1    SYS     NODE    SYS      X\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n"
)


@pytest.mark.parametrize("text", [TABS, BLANKS])
def test_both_forms_say_the_same(text: str) -> None:
    found = read_matrix(text)
    assert found.ways["GPU0", "GPU1"] == "NV"
    assert found.links["GPU1", "GPU0"] == 12
    assert found.ways["GPU0", "NIC0"] == "PXB"
    assert found.ways["NIC1", "GPU1"] == "NODE"
    assert ("GPU0", "GPU0") not in found.ways
    assert found.nics == {"NIC0": "mlx5_0", "NIC1": "mlx5_bond_0"}
    assert found.numa == {"GPU0": 3, "GPU1": 1}


@pytest.mark.parametrize(
    "text", ["", "No devices were found", "\tGPU0\nGPU0\tFailed to query\n", "GPU0\nGPU0\nGPU0 ?"]
)
def test_what_is_no_matrix_says_nothing(text: str) -> None:
    found = read_matrix(text)
    assert found.ways == {}
    assert found.links == {}
