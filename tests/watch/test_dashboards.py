"""The dashboard and the alert rules speak only of metrics that are exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from gpuscope.watch.dashboards import ALERTS, DASHBOARD
from gpuscope.watch.metrics import METRICS, VERDICTS

STRING = re.compile(r'"[^"]*"')
NAME = re.compile(r"\bgpuscope_[a-z0-9_]+")
SELECTOR = re.compile(r"(gpuscope_[a-z0-9_]+)\{([^}]*)\}")


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text("utf-8"))


def panels() -> list[dict[str, Any]]:
    return dashboard()["panels"]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (rule["expr"] for rule in rules())


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
    text = DASHBOARD.read_text("utf-8")
    labels = {label for metric in METRICS.values() for label in metric.labels}
    assert set(re.findall(r"\{\{(\w+)\}\}", text)) <= labels
    variables = {each["name"] for each in dashboard()["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", text))
    assert used <= variables
    for each in dashboard()["templating"]["list"][1:]:
        name, label = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", each["query"]).groups()
        assert label in METRICS[name].labels


def test_every_verdict_has_its_look() -> None:
    timeline = next(p for p in panels() if p["type"] == "state-timeline")
    mapped = timeline["fieldConfig"]["defaults"]["mappings"][0]["options"]
    assert len({each["color"] for each in mapped.values()}) == len(mapped) == len(VERDICTS)
    for place, name in enumerate(VERDICTS, 1):
        assert f'gpuscope_device_verdict="{name}"}} * {place}' in timeline["targets"][0]["expr"]
        assert mapped[str(place)]["text"]


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
    assert len({rule["alert"] for rule in rules()}) == len(rules()) > 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_the_dashboard_is_json_that_grafana_imports() -> None:
    document = dashboard()
    assert document["schemaVersion"] == 39
    assert document["uid"]
    assert "id" not in document  # Grafana gives it
