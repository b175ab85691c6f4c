"""What machines can do: the catalogue of devices and links, clusters, and their calibration.

Facts come from `catalogue/`, one TOML file a device, each figure with its source. This package
knows nothing of PyTorch, and importing it reads no file.
"""

from gpuscope.hardware.calibration import CalibratedValue, Calibration, Distance, calibration_for
from gpuscope.hardware.cluster import Cluster, Node, parse_target
from gpuscope.hardware.device import Device, rate_name
from gpuscope.hardware.interconnect import Interconnect
from gpuscope.hardware.loader import device, devices, interconnect, interconnects
from gpuscope.hardware.names import device_ids, interconnect_ids
from gpuscope.hardware.own import applied, load_own
from gpuscope.hardware.units import parse_overrides, parse_quantity, parse_sweep

Link = Interconnect

__all__ = [
    "CalibratedValue",
    "Calibration",
    "Cluster",
    "Device",
    "Distance",
    "Interconnect",
    "Link",
    "Node",
    "applied",
    "calibration_for",
    "device",
    "device_ids",
    "devices",
    "interconnect",
    "interconnect_ids",
    "interconnects",
    "load_own",
    "parse_overrides",
    "parse_quantity",
    "parse_sweep",
    "parse_target",
    "rate_name",
]
