"""Write the files of this folder anew: `python -m gpuscope.watch.dashboards`."""

from __future__ import annotations

from pathlib import Path

from gpuscope.atomic import write_atomically
from gpuscope.watch.dashboards import alerts_yaml, dashboard_json

if __name__ == "__main__":
    folder = Path(__file__).parent
    write_atomically(folder / "grafana.json", dashboard_json())
    write_atomically(folder / "alerts.yml", alerts_yaml())
