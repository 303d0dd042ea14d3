from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof import rendering
from ackproof.errors import RunDirectoryError
from ackproof.judgement.overview.collect import overview_of
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.report.html import provide_library, read_run, write_html
from ackproof.report.run_plots import band_rows, figures, rate
from ackproof.runs.directory import read_verdict, write_model
from ackproof.runs.overview import AvailableSpan, ProbedPartition
from ackproof.runs.verdict import PartitionState, Step, StoppedProducer
from ackproof_spark.tables import LOCATION
from support import synthetic_run as synthetic
from support.snapshots import plain

ENDED = "Broker 1 ended by itself at 06:23:15 UTC: Halting broker because dir /data is offline"


class Page(HTMLParser):
    """Collects elements and text of a page; the text of scripts separately."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.lines: list[str] = []
        self.first_run: int | None = None
        self._stack: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "article" and self.first_run is None:
            self.first_run = len(self.lines)
        if tag not in {"meta", "link", "br", "wbr"}:
            self._stack.append(tag)

    def handle_endtag(self, tag):
        assert self._stack.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self._stack and self._stack[-1] == "script":
            self.scripts.append(data)
        elif self._stack and self._stack[-1] != "style":
            self.text += f" {data.strip()}"
            self.lines += [data.strip()] if data.strip() else []

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]

    @property
    def figures(self) -> dict:
        return json.loads(self.scripts[0])["plots"]


def page_of(tmp_path: Path, *directories: Path, title: str = "A report") -> Page:
    path = tmp_path / "report.html"
    write_html(path, directories, title=title)
    return Page(path.read_text(encoding="utf-8"))


def head(page: Page) -> str:
    """Return the text from the advice to the first run, one element a line.

    The scenarios of these runs have the default version of Kafka.
    """
    lines = page.lines[page.lines.index("Advice") : page.first_run]
    text = re.sub(r"/\S+/(?=acks-\w+/)", "RUNS/", "\n".join(lines))
    return plain(text, DEFAULT=DEFAULT_KAFKA, VERSION=f"ackproof {metadata.version('ackproof')}")


@pytest.fixture
def altered(copied):
    """Copies a run, and changes its verdict."""

    def alter(made, **changes) -> Path:
        directory = copied(made.directory)
        write_model(directory / "verdict.json", made.verdict.model_copy(update=changes))
        return directory

    return alter


@pytest.fixture(scope="module")
def comparison(tmp_path_factory, acks_0, acks_1, acks_all) -> Page:
    runs = (acks_0.directory, acks_1.directory, acks_all.directory)
    return page_of(tmp_path_factory.mktemp("page"), *runs, title="acks compared")


@pytest.fixture(scope="module")
def everything(tmp_path_factory, acks_1, finding, unverified, interrupted) -> Page:
    runs = (acks_1.directory, finding.directory, unverified.directory, interrupted)
    return page_of(tmp_path_factory.mktemp("page"), *runs)


def test_pages_of_a_folder_share_one_plot_library_and_need_no_network(tmp_path, acks_0, acks_1):
    for name in ("one.html", "two.html"):
        write_html(tmp_path / name, [acks_0.directory, acks_1.directory], title="x")
        assert (tmp_path / name).stat().st_size < 1_000_000
    [library] = tmp_path.glob("*.js")
    assert "plotly.js v" in library.read_text(encoding="utf-8")[:500]
    page = Page((tmp_path / "one.html").read_text(encoding="utf-8"))
    sources = [one["src"] for one in page.all("script", "img", "iframe") if "src" in one]
    assert sources == [library.name]
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert "default-src 'none'" in str(page.all("meta"))


def test_the_library_is_copied_where_it_cannot_be_linked(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    name = provide_library(tmp_path)
    assert (tmp_path / name).stat().st_nlink == 1
    assert (tmp_path / name).stat().st_size > 1_000_000
    assert provide_library(tmp_path) == name


@pytest.mark.parametrize("there", [True, False])
def test_page_and_library_replace_links_that_lead_elsewhere(tmp_path, acks_0, there):
    victim, folder = tmp_path / "victim", tmp_path / "run"
    folder.mkdir()
    if there:
        victim.write_text("precious")
    name = provide_library(tmp_path)
    for link in ("report.html", name):
        (folder / link).symlink_to(victim)
    write_html(folder / "report.html", [acks_0.directory], title="x")
    assert victim.exists() == there
    assert not there or victim.read_text() == "precious"
    assert (folder / name).stat().st_size > 1_000_000


def test_the_page_starts_with_a_table_of_verdicts(comparison, snapshot):
    tags = [tag for tag, _ in comparison.elements]
    assert tags.index("table") < tags.index("article")
    assert head(comparison) == snapshot


def test_outcomes_are_in_the_header_of_each_run(everything):
    headers = [p["class"] for p in everything.all("p") if "outcome" in (p.get("class") or "")]
    assert headers == ["outcome lost", "outcome lost", "outcome lost", "outcome unclear"]
    assert "Lost 142 of 11,998 acked records, as expected" in everything.text
    assert not re.search(r"\b(holds|violated|agrees)\b", everything.text)


def test_the_contents_lead_to_every_section(comparison, everything):
    for page in (comparison, everything):
        ids = {attributes.get("id") for _, attributes in page.elements}
        links = [link["href"].removeprefix("#") for link in page.all("a")[1:]]
        assert set(links) <= ids
        runs = sum(tag == "article" for tag, _ in page.elements)
        assert {f"run-{number}-time" for number in range(1, runs + 1)} <= set(links)


def test_sections_are_in_reading_order(explained, tmp_path):
    text = " ".join(page_of(tmp_path, explained.directory).text.split())
    assert "acks=1, leader lost before replication (B2)." in text
    assert "broker 1 epoch 0, ISR {1, 2, 3}" in text
    assert "broker 2, epoch 1 elected" in text
    text = text[text.index("Lost 142 of") :]
    order = (
        *("Advice:", "What happened", "Why records were lost", "What the model foresaw"),
        *("The loss of most records", "What each replica did"),
        *("Prediction and observation", "Expectations", "Evidence", "Reproduce"),
    )
    places = [text.index(one) for one in order]
    assert places == sorted(places)
    shown, folded = text[places[6] :].split("anomalies that did not occur")
    assert "lost" in shown
    assert "phantom" not in shown
    assert "phantom" in folded


def test_a_comparison_leads_with_the_advice(comparison):
    text = " ".join(comparison.text.split())
    places = [text.index(one) for one in ("Use 'acks=all", "Are acked records lost?", "All conf")]
    assert places == sorted(places)
    assert "shows what can happen, not how often" in text


def test_the_page_of_a_run_begins_with_its_configuration(tmp_path, acks_1):
    text = " ".join(page_of(tmp_path, acks_1.directory).text.split())
    assert text.index("acks 1 ") < text.index("Lost 142 of")
    assert "min.insync.replicas" in text[: text.index("Lost 142 of")]
    assert "shows what can happen" not in text, "it is no comparison"
    assert "Advice: Set acks=all" in text


OUTAGE = "OUTAGE: producer 0 stopped for good"
STOPPED = {"stopped": [StoppedProducer(producer=0, error="OUT_OF_ORDER_SEQUENCE_NUMBER")]}
REPORTED = {"reported_errors": ["fault 1 made brokers report an error"]}
UNCHECKED = {"not_checked": ["orders-0: there is no log"]}


@pytest.mark.parametrize(
    ("changes", "several", "order"),
    [
        (STOPPED, False, ("Lost 142 of", OUTAGE, "Advice:")),
        (STOPPED, True, ("OUTAGE with acks=1", "Are acked records lost?")),
        (REPORTED, False, ("Why records were lost", "fault 1 made brokers report an error.")),
        (UNCHECKED, True, ("Are acked records lost?", "Not compared with the model: orders-0")),
        ({"ended": []}, False, (ENDED, "Matches prediction")),
    ],
    ids=["stopped", "stopped beside others", "reported", "not compared", "ended by itself"],
)
def test_what_a_verdict_reports_is_at_its_place(
    acks_1, ended, altered, tmp_path, *, changes, several, order
):
    changes = {"ended": ended.verdict.ended} if "ended" in changes else changes
    others = [acks_1.directory] if several else []
    text = page_of(tmp_path, altered(acks_1, **changes), *others).text
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    unchanged = page_of(tmp_path, acks_1.directory).text
    assert not any(said in unchanged for said in ("OUTAGE", "ended by itself", "Not compared"))


def test_findings_and_inconclusive_runs_are_above_the_table_with_their_reason(everything, snapshot):
    above, table, _ = head(everything).partition("Are acked records lost?")
    assert table
    notices, _, _ = above.partition("acks=1, killed")
    assert "Finding in acks=all" in notices
    assert notices == snapshot


def test_runs_that_agree_have_no_notice(comparison):
    for notice in ("Finding", "Inconclusive", "is incomplete", "What the model foresaw"):
        assert notice not in comparison.text


def test_the_page_lists_missing_files_of_an_interrupted_run(everything):
    assert "acks=1, killed is incomplete" in everything.text
    assert "verdict.json: missing" in everything.text
    assert "ledger/producer-1.parquet: cannot be read" in everything.text
    assert "The run was not analysed, so losses are unknown." in everything.text
    assert "never healed" in everything.text
    assert "broker 1 did not come back" in everything.text


def test_equal_losses_are_one_story_with_partition_times_and_fault(comparison):
    stories = re.findall(
        r"LOST [\d,]+ records of orders-0, acked at offsets[^;]+;", comparison.text
    )
    assert re.search(
        r"LOST 142 records of orders-0, acked at offsets \d+ to \d+ between 12:04:\d\d\.\d{3} and "
        r"12:04:\d\d\.\d{3} during isolate_replication of broker 1;",
        " ".join(stories),
    )
    assert "at that offset now: record of producer" in comparison.text


def test_the_page_shows_the_commands_that_repeat_the_run(comparison, acks_1):
    assert f"ackproof run {acks_1.directory}/scenario.yaml" in comparison.text
    assert "acks: '1'" in comparison.text


def test_every_plot_has_a_description_and_a_figure(everything):
    shown = [
        attributes for attributes in everything.all("div") if attributes.get("class") == "plot"
    ]
    assert {attributes["id"] for attributes in shown} == set(everything.figures)
    assert len(shown) == 5 + 5 + 5 + 4
    for attributes in shown:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 40


def test_the_structure_is_accessible_to_screen_readers(everything):
    headings = [int(tag[1]) for tag, _ in everything.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))
    assert all(attributes.get("scope") in {"col", "row"} for attributes in everything.all("th"))
    ids = [attributes["id"] for _, attributes in everything.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in everything.elements:
        for reference in filter(None, [attributes.get("aria-labelledby")]):
            assert reference in ids
    links = [link["href"] for link in everything.all("a")]
    assert links[0] == "#content"
    assert all(link.removeprefix("#") in ids for link in links)


def test_swatches_of_every_colour_have_a_style(everything, comparison):
    style = Path(rendering.__file__).parent / "templates" / "report.css"
    sheet = style.read_text(encoding="utf-8")
    colours = {
        match
        for page in (everything, comparison)
        for match in re.findall(r'"var\(--([a-z0-9-]+)', page.scripts[0])
    }
    assert {"acked", "lost", "fault", "broker1"} <= colours
    for colour in colours:
        assert len(re.findall(rf"--{colour}: #[0-9a-f]{{6}}", sheet)) == 2, colour
    for page in (everything, comparison):
        for span in page.all("span"):
            if (span.get("class") or "").startswith("swatch "):
                assert f".{span['class'].replace(' ', '.')} " in sheet


def test_external_text_is_escaped(tmp_path, acks_1, copied):
    directory = copied(acks_1.directory)
    evil = "</script><script>alert(1)</script>"
    for name, column in (("fault_windows", "evidence"), ("partition_states", "topic")):
        path = directory / LOCATION[name]
        table = pq.read_table(path)
        place = table.schema.get_field_index(column)
        values = pa.array([evil] * table.num_rows)
        pq.write_table(table.set_column(place, table.schema.field(place), values), path)
    (directory / "scenario.yaml").write_text(evil)
    page = page_of(tmp_path, directory, title=evil)
    assert len(page.scripts) == 2
    assert page.text.count(evil) >= 5
    assert evil.replace("<", "&lt;").replace(">", "&gt;") in str(page.figures["run-1-timeline"])
    assert evil not in str(page.figures)


def test_a_page_with_empty_tables_is_complete(tmp_path, acks_1, copied):
    directory = copied(acks_1.directory)
    for file in directory.rglob("*.parquet"):
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    assert "This run is incomplete" not in page_of(tmp_path, directory).text


def test_the_page_of_a_judged_run_needs_none_of_its_tables(tmp_path, explained, copied):
    directory = copied(explained.directory)
    before = page_of(tmp_path, directory)
    write_model(directory / "overview.json", overview_of(directory))
    for location in LOCATION.values():
        path = directory / location
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
    after = page_of(tmp_path, directory)
    assert after.text == before.text
    assert after.figures == before.figures


def test_a_run_with_only_a_scenario_has_a_page(tmp_path):
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "scenario.yaml").write_text("name: x")
    page = page_of(tmp_path, directory)
    assert "No sends are recorded" in page.text
    assert page.figures == {}


@pytest.mark.parametrize(
    ("acks", "acked", "says"),
    [
        ("1", 12, "not claimed"),
        ("1", 0, "nothing acked"),
        ("0", 12, "acks=0 waits for no ack"),
    ],
)
def test_a_missing_latency_has_a_reason_and_no_plot(
    acks_1, altered, tmp_path, *, acks, acked, says
):
    assert "quantiles" in str(page_of(tmp_path, acks_1.directory).figures)
    verdict = acks_1.verdict
    directory = altered(
        acks_1,
        metrics=verdict.metrics.model_copy(update={"ack_latency_ms": None}),
        observed={**verdict.observed, "acked": acked},
        configuration={**verdict.configuration, "acks": acks},
    )
    page = page_of(tmp_path, directory)
    assert says in page.text
    assert "quantiles" not in str(page.figures)


def test_runs_of_one_configuration_are_numbered(tmp_path, acks_1):
    page = page_of(tmp_path, acks_1.directory, acks_1.directory)
    assert "acks=1 (run 1)" in page.text
    assert "acks=1 (run 2)" in page.text
    assert "in 2 of 2 runs" in page.text


def test_close_faults_get_labels_in_different_rows(acks_1):
    assert band_rows(overview_of(acks_1.directory)) == [0, 1]


def test_few_losses_have_tick_marks_instead_of_an_invisible_area(finding):
    overview = overview_of(finding.directory)
    timeline = overview.timelines[0]
    (ticks,) = [trace for trace in rate(overview, timeline).traces if trace.mode == "markers"]
    assert len(ticks.x) == sum(number > 0 for number in timeline.lost) > 0
    all_lost = timeline.model_copy(update={"acked": timeline.lost})
    assert all(trace.mode == "lines" for trace in rate(overview, all_lost).traces)


def test_the_plots_of_clients_and_the_probe_draw_the_overview(acks_all, explained, snapshot):
    overview = overview_of(acks_all.directory)
    bins = len(overview.timelines[0].acked)
    timeline = overview.timelines[0].model_copy(
        update={
            "unread": {"steady": [0] * bins, "slow": [*[5] * (bins - 1), 2]},
            "transactions": {"committed": [*[0] * (bins - 2), 3, 4], "aborted": [0] * bins},
            "untimed_transactions": 1,
        }
    )
    spans = [AvailableSpan(start=0, end=10, available=True)]
    down = [*spans, AvailableSpan(start=10, end=20, available=False)]
    probed = ProbedPartition(topic="orders", partition=0, tracks={"read": spans, "write": down})
    overview = overview.model_copy(update={"probed": [probed]})
    drawn = {figure.name: figure for figure in figures(overview, timeline)}
    assert [key.text for key in drawn["unread"].keys] == ["steady", "slow"]
    [committed] = drawn["transactions"].traces
    assert committed.y[-3:] == (0, 3, 7)
    available, unavailable = drawn["availability"].traces
    assert (unavailable.base, unavailable.x, len(available.base)) == ((10,), (10,), 2)
    spoken = [drawn[name].spoken for name in ("unread", "transactions", "availability")]
    assert "\n".join(spoken) == snapshot
    assert {"unread", "transactions", "availability"}.isdisjoint(
        figure.name for figure in figures(overview_of(explained.directory), overview.timelines[0])
    )


def test_the_page_has_the_steps_of_the_probe(tmp_path, acks_all, altered):
    state = PartitionState(
        topic="orders",
        partition=0,
        readable="yes",
        writable="no",
        readable_s=10.0,
        writable_s=0.0,
    )
    times = {"begin": synthetic.at(0), "end": synthetic.at(10)}
    step = Step(in_force=[1], begun=1, healed=[], partitions=[state], **times)
    metrics = acks_all.verdict.metrics.model_copy(update={"probe": synthetic.PROBE})
    page = " ".join(
        page_of(tmp_path, altered(acks_all, metrics=metrics, steps=[step])).text.split()
    )
    assert "Readable and writable, step by step" in page
    assert "F2 isolate_replication 0.0 to 10.0 orders-0 yes 10.0 s; no prediction no" in page
    assert "readable 75.00 %" in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "maybe"}, "cannot be read (verdict: Input should be"),
        ({"started_at": "0001-01-01T00:00:00+14:00"}, "is outside the years 1 to 9999 in UTC"),
        ({"observed": {"acked": 1, "lost": 10**400}}, "observed.lost: Input should be less than"),
    ],
)
def test_an_invalid_verdict_is_reported(acks_1, tmp_path, change, said, copied):
    directory = copied(acks_1.directory)
    verdict = json.loads((directory / "verdict.json").read_text()) | change
    (directory / "verdict.json").write_text(json.dumps(verdict))
    assert any(said in sentence for sentence in read_run(directory).missing)
    assert said.split("(")[-1] in page_of(tmp_path, directory).text
    with pytest.raises(RunDirectoryError, match="is damaged"):
        read_verdict(directory)


def test_a_directory_that_is_not_a_run_directory_is_refused(tmp_path):
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        read_run(tmp_path)
    with pytest.raises(RunDirectoryError, match="is not a directory"):
        read_run(tmp_path / "nowhere")
