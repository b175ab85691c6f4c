"""A Grafana dashboard and Prometheus alert rules for the exporter's metrics: files, to be edited.

A test holds them to `gpuscope.watch.metrics`: they ask for nothing that is not exported. The
dashboard is of Grafana's schema version 39 (10.4 and later). Thresholds stand in each alert's
description; they are beginnings, to be changed by who knows the machines.
"""

from pathlib import Path

DASHBOARD = Path(__file__).with_name("grafana.json")
ALERTS = Path(__file__).with_name("alerts.yml")
