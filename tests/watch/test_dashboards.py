"""The dashboard and the alert rules speak only of metrics that are exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import gpuscope.watch.dashboards as package
from gpuscope.watch.dashboards import ALERTS, alerts_yaml, dashboard, dashboard_json
from gpuscope.watch.dashboards.grafana import _VERDICT_LOOK
from gpuscope.watch.metrics import METRICS, VERDICTS

FOLDER = Path(package.__file__).parent
STRING = re.compile(r'"[^"]*"')
NAME = re.compile(r"\bgpuscope_[a-z0-9_]+")
SELECTOR = re.compile(r"(gpuscope_[a-z0-9_]+)\{([^}]*)\}")


def panels() -> list[dict[str, Any]]:
    return dashboard()["panels"]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (alert.expression for alert in ALERTS)


def test_the_files_are_what_the_list_makes() -> None:
    """After a change: python -m gpuscope.watch.dashboards."""
    assert (FOLDER / "grafana.json").read_text("utf-8") == dashboard_json()
    assert (FOLDER / "alerts.yml").read_text("utf-8") == alerts_yaml()


def test_only_exported_metrics_and_labels_are_asked_for() -> None:
    asked = set()
    for expression in expressions():
        for name, selector in SELECTOR.findall(expression):
            labels = set(re.findall(r"(\w+)\s*[=!]~?", STRING.sub("", selector)))
            assert labels <= set(METRICS[name].labels), expression
        bare = re.sub(r"\{[^}]*\}", "", re.sub(r"without \([^)]*\)", "", expression))
        asked |= set(NAME.findall(STRING.sub("", bare)))
    assert asked <= set(METRICS)
    assert len(asked) > 20


def test_variables_and_legends_name_labels_that_exist() -> None:
    text = dashboard_json()
    labels = {label for metric in METRICS.values() for label in metric.labels}
    assert set(re.findall(r"\{\{(\w+)\}\}", text)) <= labels
    variables = {each["name"] for each in dashboard()["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", text))
    assert used <= variables
    for each in dashboard()["templating"]["list"][1:]:
        name, label = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", each["query"]).groups()
        assert label in METRICS[name].labels


def test_every_verdict_has_its_look() -> None:
    assert set(_VERDICT_LOOK) == set(VERDICTS)
    timeline = next(p for p in panels() if p["type"] == "state-timeline")
    mapped = timeline["fieldConfig"]["defaults"]["mappings"][0]["options"]
    for place, name in enumerate(VERDICTS, 1):
        assert f'gpuscope_device_verdict="{name}"}} * {place}' in timeline["targets"][0]["expr"]
        assert mapped[str(place)]["text"] == _VERDICT_LOOK[name][0]


def test_panels_fill_the_grid_without_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & cells, panel["title"]
        cells |= covered
    rows = max(y for _, y in cells) + 1
    assert len(cells) == 24 * rows  # no holes
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_panel_says_how_to_read_it() -> None:
    for panel in panels():
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["targets"]
            assert panel["fieldConfig"]["defaults"]["unit"]


def test_the_rules_are_yaml_and_whole() -> None:
    groups = yaml.safe_load(alerts_yaml())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert [rule["alert"] for rule in rules] == [alert.name for alert in ALERTS]
    assert [rule["expr"] for rule in rules] == [alert.expression for alert in ALERTS]
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_the_dashboard_is_json_that_grafana_imports() -> None:
    document = json.loads(dashboard_json())
    assert document["schemaVersion"] == 39
    assert document["uid"]
    assert "id" not in document  # Grafana gives it
