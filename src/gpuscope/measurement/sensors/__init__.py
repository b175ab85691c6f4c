"""What the device says of itself: power, energy, clocks, temperature, memory, who else is on it.

One file a vendor, each registers itself. A reading that a device does not give is None, never 0.

>>> from gpuscope.measurement.sensors import open_sensor
>>> sensor = open_sensor(0)              # None where no vendor's library finds the device
>>> sensor.read().power_w if sensor else None
"""

from gpuscope.measurement.sensors.energy import EnergySpan, EnergyWindow, energy_between
from gpuscope.measurement.sensors.recording import Recorder, Replay
from gpuscope.measurement.sensors.registry import open_sensor, sensor_vendor, vendors
from gpuscope.measurement.sensors.types import ProcessUse, Reading, Sensor, SensorInfo

__all__ = [
    "EnergySpan",
    "EnergyWindow",
    "ProcessUse",
    "Reading",
    "Recorder",
    "Replay",
    "Sensor",
    "SensorInfo",
    "energy_between",
    "open_sensor",
    "sensor_vendor",
    "vendors",
]
