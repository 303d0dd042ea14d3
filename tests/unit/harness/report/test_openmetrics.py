"""Metrics of runs, as Prometheus's parser reads them and as the Grafana dashboard needs them."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
from prometheus_client.parser import text_string_to_metric_families as parse_classic

from ackproof.report.openmetrics import render, write_metrics
from ackproof.runs.directory import read_record
from ackproof.runs.verdict import Word

GRAFANA = Path(__file__).parents[4] / "ci" / "templates" / "grafana" / "ackproof-dashboard.json"


def samples(text: str, name: str, **labels: str) -> list[float]:
    return [
        sample.value
        for family in parse(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def test_prometheus_reads_what_a_run_has(explained, acks_all):
    text = render([explained, acks_all])
    observed = explained.verdict.observed
    run = {"scenario": "acks", "configuration": "acks=1", "kafka_version": "4.3.1"}
    assert samples(text, "ackproof_as_expected", **run) == [1]
    assert samples(text, "ackproof_sends", **run, outcome="acked") == [observed["acked"]]
    assert samples(text, "ackproof_anomalies", **run, anomaly="lost") == [observed["lost"]]
    assert samples(text, "ackproof_lost_by_cause", **run, case="B2") == [observed["lost"]]
    assert samples(text, "ackproof_findings", **run) == [0]
    p99 = explained.verdict.metrics.ack_latency_ms.p99 / 1000
    assert samples(text, "ackproof_ack_latency_seconds", **run, quantile="0.99") == [p99]
    finished = explained.verdict.finished_at.timestamp()
    assert samples(text, "ackproof_finished_timestamp_seconds", **run) == [finished]
    assert len(samples(text, "ackproof_anomalies", anomaly="lost")) == 2
    # node_exporter and push gateways read the older format.
    assert {one.name for one in parse_classic(text)} == {one.name for one in parse(text)}


def test_text_that_is_damaged_is_refused_by_the_parser(acks_1):
    with pytest.raises(ValueError, match="EOF"):
        list(parse(render([acks_1]).replace("# EOF\n", "")))


def test_verdicts_are_numbers_and_the_last_run_is_used(acks_1, finding, unverified):
    later = acks_1.verdict.model_copy(update={"verdict": Word.VIOLATED})
    assert samples(render([acks_1, (acks_1.directory, later)]), "ackproof_as_expected") == [0]
    [unclear] = samples(render([unverified]), "ackproof_as_expected")
    assert math.isnan(unclear)
    assert samples(render([finding]), "ackproof_findings") == [1]


def test_runs_that_differ_only_by_replaced_settings_are_told_apart(acks_1, tmp_path):
    alone = acks_1.verdict.model_copy(update={"configuration_name": ""})
    runs = []
    for value in ("10", "20"):
        shutil.copytree(acks_1.directory, tmp_path / value)
        record = read_record(acks_1.directory).model_copy(
            update={"overrides": {"workload": {"settings": {"linger.ms": value}}}}
        )
        (tmp_path / value / "run.json").write_text(record.model_dump_json())
        runs.append((tmp_path / value, alone))
    other = alone.model_copy(update={"configuration": {**alone.configuration, "acks": "all"}})
    text = render([*runs, (acks_1.directory, alone), (acks_1.directory, other), runs[0]])
    assert len(samples(text, "ackproof_findings")) == 4


def test_labels_are_escaped(acks_1):
    odd = acks_1.verdict.model_copy(update={"configuration_name": 'a "b" \\ c'})
    assert samples(
        render([(acks_1.directory, odd)]), "ackproof_findings", configuration='a "b" \\ c'
    ) == [0]


def test_the_file_is_replaced_and_no_partial_file_remains(acks_1, tmp_path):
    path = tmp_path / "ackproof.prom"
    path.write_text("old")
    write_metrics(path, [acks_1])
    assert path.read_text() == render([acks_1])
    assert [one.name for one in tmp_path.iterdir()] == ["ackproof.prom"]


def test_the_grafana_dashboard_asks_for_metrics_and_labels_that_exist(explained):
    text = render([explained])
    known = {sample.name: set(sample.labels) for family in parse(text) for sample in family.samples}
    dashboard = json.loads(GRAFANA.read_text())
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked = [target["expr"] for target in targets if "expr" in target]
    assert len(asked) >= 6
    used = set()
    # In Trino's plugin 0 is a time series, which makes labels of text columns and an error of an
    # answer without rows; 1 is a table.
    assert {target.get("format", 1) for target in targets} == {1}
    for target in targets:
        for name, labels in re.findall(r"(ackproof_\w+)\{([^}]*)\}", target.get("expr", "")):
            open_labels = known[name] - set(re.findall(r"(\w+)=\"", labels))
            assert open_labels - {"scenario"} <= set(re.findall(r"\w+", target["legendFormat"]))
    for expression in asked:
        for name, labels in re.findall(r"(ackproof_\w+)(?:\{([^}]*)\})?", expression):
            used.add(name)
            assert set(re.findall(r"(\w+)\s*[=!]", labels)) <= known[name], expression
    assert used == set(known)
