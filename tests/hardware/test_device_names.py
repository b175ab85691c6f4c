"""Names as people and drivers write them."""

import pytest

from gpuscope.errors import UnknownNameError
from gpuscope.hardware.names import device_ids, resolve


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("h200", "nvidia-h200-sxm"),
        ("H200", "nvidia-h200-sxm"),
        ("H200 NVL", "nvidia-h200-nvl"),
        ("a100", "nvidia-a100-sxm-80gb"),
        ("A100-40GB", "nvidia-a100-sxm-40gb"),
        ("4090", "nvidia-rtx-4090"),
        ("rtx-4090", "nvidia-rtx-4090"),
        ("RTX 4090", "nvidia-rtx-4090"),
        ("rtx4090", "nvidia-rtx-4090"),
        ("mi300x", "amd-mi300x"),
        ("tpu-v5p", "google-tpu-v5p"),
        ("v5p", "google-tpu-v5p"),
        ("TPU v6e", "google-tpu-v6e"),
        ("trillium", "google-tpu-v6e"),
        ("m2-max", "apple-m2-max"),
        ("m2", "apple-m2"),
        ("gb200", "nvidia-gb200"),
        ("h20", "nvidia-h20"),
        ("l4", "nvidia-l4"),
        ("l40s", "nvidia-l40s"),
        ("7900 XTX", "amd-rx-7900-xtx"),
        ("910b", "huawei-ascend-910b"),
        ("gaudi3", "intel-gaudi3"),
        ("trn2", "aws-trainium2"),
        # as torch.cuda.get_device_name() has them
        ("NVIDIA H200", "nvidia-h200-sxm"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm-80gb"),
        ("NVIDIA A100 80GB PCIe", "nvidia-a100-pcie-80gb"),
        ("NVIDIA A10", "nvidia-a10"),
        ("Tesla V100-SXM2-16GB", "nvidia-v100-sxm2-16gb"),
        ("Tesla T4", "nvidia-t4"),
        ("NVIDIA L40S", "nvidia-l40s"),
        ("NVIDIA GeForce RTX 5090", "nvidia-rtx-5090"),
        ("NVIDIA RTX 6000 Ada Generation", "nvidia-rtx-6000-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "nvidia-rtx-pro-6000-blackwell"),
        ("NVIDIA B200", "nvidia-b200"),
        ("AMD Instinct MI300X", "amd-mi300x"),
        ("AMD Radeon RX 7900 XTX", "amd-rx-7900-xtx"),
        ("Apple M2 Max", "apple-m2-max"),
    ],
)
def test_the_device_meant(written: str, meant: str) -> None:
    assert resolve(written) == meant


def test_every_identifier_names_itself_with_and_without_its_vendor() -> None:
    for device_id in device_ids():
        assert resolve(device_id) == device_id
        assert resolve(device_id.upper()) == device_id


@pytest.mark.parametrize(
    ("written", "near"),
    [("h2000", "h200"), ("a1oo", "a100"), ("mi300", "mi300x"), ("rtx", "nvidia-rtx-4090")],
)
def test_an_unknown_or_ambiguous_name_lists_the_near_ones(written: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as error:
        resolve(written)
    assert near in error.value.near
    assert "gpuscope devices" in str(error.value)


@pytest.mark.parametrize(
    "written", ["", "  ", "gtx-9999-ultra-max", "../nvidia-h200-sxm", "nvidia"]
)
def test_nonsense_is_refused(written: str) -> None:
    with pytest.raises(UnknownNameError):
        resolve(written)
