"""The dashboard: complete, offline, and equal to the rows of the warehouse."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.report.dashboard import Trends, figures, write_dashboard
from support.sample_trends import TRENDS, loss, run
from unit.harness.report.browser import dumped, look, needs_browser


def written(tmp_path: Path, trends: Trends) -> str:
    path = tmp_path / "page.html"
    write_dashboard(path, trends, title="Trends <of> it")
    return path.read_text()


def test_the_page_shows_all_rows_and_needs_no_network(tmp_path):
    page = written(tmp_path, TRENDS)
    ours = page[: page.index('<script type="application/json"')]
    assert not re.search(r"(?:src|href)=\"(?!#|data:|file:///runs/)", ours)
    assert re.findall(r'<a href="file:([^"]+)">acks=1</a>', ours) == [
        "///runs/run-2/report.html",
        "///runs/run-1/report.html",
    ]
    assert "Trends &lt;of&gt; it" in ours
    assert "lost 10 of 1,000 acked records, &lt;none&gt; expected" in ours
    assert "not &lt;all&gt; was read" in ours
    assert '>1 of 2<span class="sub">10 % to 90 %<' in ours
    assert '>2 of 3<span class="sub">7<' in ours
    assert "<span>3 runs, 2026-11-01 to 2026-11-03 UTC</span>" in ours
    assert "<span>3 with loss</span>" in ours
    assert ours.count('class="answered no"') == ours.count('class="answered undecided"') == 1
    assert "1aaaaaaaaaaa<" in ours
    drawn = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])["plots"]
    assert list(drawn) == [
        "trend-losing-runs",
        "trend-causes",
        *(f"trend-{name}" for name in ("availability", "latency", "recoveries")),
    ]


def test_share_groups_have_a_table(tmp_path):
    row = {
        "scenario": "queue",
        "configuration": "share <group>",
        "kafka_version": "4.4.0",
        "consumer_group": "workers",
        "runs": 3,
        "records": 9000,
        "further_deliveries": 1234,
        "deliveries_most": 5,
        "accepted": 8000,
        "rejected": 7,
        "refused": 2,
    }
    assert 'id="redeliveries"' not in written(tmp_path, TRENDS)
    page = written(tmp_path, replace(TRENDS, redeliveries=[row]))
    assert "share &lt;group&gt;" in page
    assert '>1,234<span class="sub">5<' in page


def test_markup_in_names_is_text_in_every_plot(tmp_path):
    """Plotly interprets some tags in labels."""
    evil = {"configuration": "<b>acks</b>", "scenario": "acks"}
    trends = Trends(
        losses=[row | evil for row in TRENDS.losses],
        duplicates=[row | evil for row in TRENDS.duplicates],
        recoveries=[row | evil for row in TRENDS.recoveries],
        runs=[row | evil for row in TRENDS.runs],
        causes=[row | evil for row in TRENDS.causes],
    )
    page = written(tmp_path, trends)
    drawn = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])["plots"]
    for name, figure in drawn.items():
        texts = [text for trace in figure["data"] for text in trace["hovertext"]]
        assert texts, name
        assert all("&lt;b&gt;acks&lt;/b&gt;" in text for text in texts), name
        assert "<b>" not in json.dumps(figure), name


def test_the_plots_draw_the_rows():
    losing, causes, availability, latency, recoveries = figures(TRENDS)
    assert [trace.x for trace in causes.traces] == [(2,), (1,)]  # one event loses many records
    assert causes.traces[0].customdata == ("file:///runs/run-1/report.html",)
    assert causes.layout.xaxis.dtick == 1  # no half of a run
    [key] = causes.layout.meta
    assert causes.traces[0].meta == (key,)
    assert [trace.y for trace in causes.traces] == [(0,), (0,)]
    assert [key.text for key in causes.keys] == ["leader lost (B2)", "unclean (B4)"]
    assert losing.traces[0].x == (50.0,)
    assert losing.traces[0].error_x.array == (40.0,)
    assert losing.layout.annotations[0].text == "acks=1, Kafka 4.3.1"
    assert availability.traces[0].y == (90.0, 90.0)
    assert availability.traces[0].customdata == tuple(run["report"] for run in TRENDS.runs[:2])
    assert availability.traces[0].meta == (key, key)
    assert availability.traces[0].marker.symbol == ("circle", "x")
    assert latency.traces[0].y == (12.5, 12.5)
    assert recoveries.traces[0].x == (4.5,)


def test_lost_records_of_losing_runs_have_a_range_if_they_differ(tmp_path):
    def shown(**changes):
        trends = Trends(losses=[loss(**changes)], duplicates=[], recoveries=[], runs=[run(1)])
        return written(tmp_path, trends)

    assert "20" in shown()
    assert "1,030 to 4,070" in shown(lost=6000, lost_median=2000.5, lost_least=1030, lost_most=4070)
    assert ">none<" in shown(lost=0, lost_median=None, lost_least=None, lost_most=0)


def test_no_two_configurations_look_alike():
    runs = [run(1, configuration=f"acks={number}") for number in range(20)]
    trends = Trends(losses=[], duplicates=[], recoveries=[], runs=runs)
    [availability, _] = figures(trends)
    assert len({(key.colour, key.opacity) for key in availability.keys}) == 20
    assert len({trace.line.color for trace in availability.traces}) == 20


def test_missing_data_is_reported_and_not_drawn(tmp_path):
    trends = Trends(losses=[], duplicates=[], recoveries=[], runs=[run(1, availability=None)])
    assert [figure.name for figure in figures(trends)] == ["latency"]
    page = written(tmp_path, trends)
    assert "Losses and duplicates" not in page


@pytest.mark.slow
@needs_browser
def test_a_browser_draws_every_plot(tmp_path):
    written(tmp_path, TRENDS)
    for one in look(tmp_path / "look", [tmp_path / "page.html"]):
        assert one.complaints == []
        assert one.seen["drawn"] == 5


@needs_browser
def test_the_filter_hides_a_configuration_and_a_point_opens_its_run(tmp_path):
    """Its rows of tables and plots disappear; the link is that of the run."""
    other = {"configuration": "acks=all"}
    trends = replace(
        TRENDS, losses=[loss(), loss() | other], runs=[run(1), run(2) | other, run(3) | other]
    )
    page = written(tmp_path, trends)
    probe = """<script>addEventListener("load", () => setTimeout(() => {
      document.querySelectorAll(".filter input")[0].click();
      const names = ["trend-losing-runs", "trend-latency"];
      const plots = names.map((name) => document.getElementById(name));
      const report = {
        rows: [...document.querySelectorAll("tr[data-configuration]")].map((row) => row.hidden),
        losses: plots[0].data.map((trace) => [...trace.y]),
        labels: plots[0].layout.annotations.map((one) => one.text),
        latency: plots[1].data.map((trace) => trace.x.length),
        link: figures["trend-latency"].data[0].customdata[0],
      };
      document.body.dataset.report = JSON.stringify(report);
    }, 1000));</script></body>"""
    (tmp_path / "page.html").write_text(page.replace("</body>", probe))
    seen = json.loads(dumped(tmp_path / "page.html", "data-report"))
    assert seen == {
        "rows": [True, False, False, False, True],
        "losses": [[0]],
        "labels": ["acks=all, Kafka 4.3.1"],
        "latency": [0, 2],
        "link": "file:///runs/run-1/report.html",
    }
