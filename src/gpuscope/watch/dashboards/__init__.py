"""A Grafana dashboard and Prometheus alert rules for the exporter's metrics.

Both are made from `gpuscope.watch.metrics`, so that no name can drift. `grafana.json` and
`alerts.yml` lie beside this file for those who import them without installing anything; after a
change: `python -m gpuscope.watch.dashboards`.
"""

from gpuscope.watch.dashboards.alerts import ALERTS, Alert, alerts_yaml
from gpuscope.watch.dashboards.grafana import dashboard, dashboard_json

__all__ = ["ALERTS", "Alert", "alerts_yaml", "dashboard", "dashboard_json"]
