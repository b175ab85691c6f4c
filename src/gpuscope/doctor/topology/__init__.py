"""How the machine is wired: read, and drawn."""

from gpuscope.doctor.topology.diagram import topology_diagram
from gpuscope.doctor.topology.gather import topology

__all__ = ["topology", "topology_diagram"]
