"""A GPU as XLA's compiler wants it described, where none is there.

The fields are those of `stream_executor.GpuTargetConfigProto` (openxla/xla
`xla/stream_executor/device_description.proto`); XLA's own examples are in
`xla/backends/gpu/target_config/specs`. XLA decides with them what to fuse
(`xla/service/gpu/transforms/priority_fusion.cc`) and what its tiles may hold.
"""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware.device import Device

__all__ = ["target_config"]

_CLOCK_GHZ = 1.5
"""Where the catalogue has none."""


def target_config(device: Device) -> str:
    """The description as a text proto.

    Raises:
        UnsupportedError: XLA's CUDA compiler has no code for the device.
    """
    if device.vendor != "NVIDIA" or device.compute_capability is None:
        raise UnsupportedError(
            Text("JAX programs are not predicted on {device}.", device=device.name),
            Text("XLA's compiler for NVIDIA GPUs decides what their kernels are."),
            Text("Type for example: --on h200"),
        )
    major, minor = device.compute_capability
    units = device.compute_units or 1
    block = device.shared_memory_per_block_bytes or 49152
    newest = "feature_extension: ACCELERATED_FEATURES" if major >= 9 else ""
    clock = (device.clock_hz or _CLOCK_GHZ * 1e9) / 1e9
    return f"""gpu_device_info {{
  threads_per_block_limit: {device.max_threads_per_block or 1024}
  threads_per_warp: {device.warp_size or 32}
  shared_memory_per_block: 49152
  shared_memory_per_core: {device.shared_memory_per_unit_bytes or block}
  threads_per_core_limit: {device.max_threads_per_unit or 2048}
  core_count: {units}
  fpus_per_core: {device.fp32_lanes_per_unit or 128}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {int(device.memory_bandwidth_bytes_per_s)}
  l2_cache_size: {device.l2_bytes or 4 << 20}
  clock_rate_ghz: {clock:.4g}
  device_memory_size: {device.memory_usable_bytes}
  shared_memory_per_block_optin: {block}
  cuda_compute_capability {{ major: {major} minor: {minor} {newest} }}
  registers_per_core_limit: {device.registers_per_unit or 65536}
  registers_per_block_limit: 65536
  {_rates(clock)}
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  device_vendor: "NVIDIA Corporation"
  platform_version: "Compute Capability {major}.{minor}"
  device_address_bits: 64
  pcie_bandwidth: 34359738368
  ecc_enabled: true
  name: "{device.name}"
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  compile_time_toolkit_version: "13.0.0"
  dnn_version: "9.10.0"
  device_interconnect_info {{ active_links: {18 if device.scale_up else 0} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{device.name}"
"""


_SCALAR = ((4, 64, 1), (8, 64, 1), (10, 128, 2), (11, 128, 1), (12, 64, 1), (16, 128, 2))
_MATRIX = ((2, 1024), (6, 1024), (10, 512), (11, 256), (12, 32), (16, 512), (19, 1024), (20, 1024))
"""Rates a multiprocessor and clock by `xla/xla_data.proto`'s PrimitiveType, as in XLA's h200.txtpb:
they weigh compute against memory when XLA chooses fusions."""


def _rates(clock: float) -> str:
    def one(key: int, units: int, operations: int) -> str:
        return (
            f"rate_infos {{ key: {key} value {{ clock_rate_ghz: {clock:.4g} "
            f"units_per_core: {units} ops_per_clock: {operations} }} }}"
        )

    scalar = " ".join(one(*each) for each in _SCALAR)
    matrix = " ".join(one(key, 4, operations) for key, operations in _MATRIX)
    return f"scalar_unit_description {{ {scalar} }}\n  matrix_unit_description {{ {matrix} }}"
