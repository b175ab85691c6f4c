"""Names, message sizes and bus factors of collectives."""

from __future__ import annotations

import pytest

from gpuscope.analysis.collective_names import bus_factor, item_bytes, message_bytes, sort_of
from gpuscope.timeline.types import Collective


@pytest.mark.parametrize(
    ("name", "sort"),
    [
        ("allreduce", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "all_reduce",
        ),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "send_recv"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", "broadcast"),
        ("send", "send"),
        ("recv", "recv"),
        ("barrier", "barrier"),
        ("reduce", "reduce"),
        ("scatter", "scatter"),
        ("something else", ""),
    ],
)
def test_every_spelling_has_one_name(name: str, sort: str) -> None:
    assert sort_of(name) == sort


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Float", 4),
        ("float32", 4),
        ("BFloat16", 2),
        ("Half", 2),
        ("float16", 2),
        ("Double", 8),
        ("Long", 8),
        ("int64", 8),
        ("Int", 4),
        ("Byte", 1),
        ("Char", 1),
        ("Bool", 1),
        ("Float8_e4m3fn", 1),
        ("float8_e5m2", 1),
        ("complex64", 8),
        ("ComplexDouble", 16),
        ("ComplexFloat", 8),
        ("nonsense", None),
    ],
)
def test_bytes_of_an_element(dtype: str, size: int | None) -> None:
    assert item_bytes(dtype) == size


def test_a_message_is_counted_as_nccl_tests_do() -> None:
    gather = Collective("all_gather", "0", 4, dtype="Float", in_elements=100, out_elements=400)
    assert message_bytes("all_gather", gather) == 1600
    scatter = Collective("reduce_scatter", "0", 4, dtype="Float", in_elements=400, out_elements=100)
    assert message_bytes("reduce_scatter", scatter) == 1600
    reduce = Collective("all_reduce", "0", 4, dtype="BFloat16", in_elements=100, out_elements=100)
    assert message_bytes("all_reduce", reduce) == 200
    assert message_bytes("all_reduce", Collective("all_reduce")) is None


def test_bus_factors() -> None:
    assert bus_factor("all_reduce", 8) == pytest.approx(2 * 7 / 8)
    assert bus_factor("all_gather", 4) == pytest.approx(3 / 4)
    assert bus_factor("all_to_all", 2) == pytest.approx(1 / 2)
    assert bus_factor("broadcast", 8) == 1
    assert bus_factor("all_reduce", None) is None
    assert bus_factor("all_reduce", 1) == 0
