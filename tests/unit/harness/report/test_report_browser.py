"""The page in a real browser: plots are drawn, everything fits, labels do not overlap."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ackproof.report.html import write_html
from unit.harness.report.browser import PHONE, WIDE, Look, dumped, look, needs_browser

pytestmark = [needs_browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def page(tmp_path_factory, acks_0, acks_1, finding, interrupted) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    runs = [acks_0.directory, acks_1.directory, finding.directory, interrupted]
    write_html(path, runs, title="In the browser")
    return path


@pytest.fixture(scope="module")
def single(page, explained) -> Path:
    path = page.with_name("single.html")
    write_html(path, [explained.directory], title="One run with its story")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_have_no_errors_nothing_too_wide_and_no_labels_on_each_other(
    page, single, tmp_path, dark
):
    looks = look(tmp_path, [page, single], dark=dark)
    assert [(one.page, one.width) for one in looks] == [
        (path, width) for path in (page, single) for width in (WIDE, PHONE)
    ]
    for one in looks:
        assert one.complaints == []
        assert one.seen["plots"] == (5 + 5 + 5 + 4 if one.page == page else 5)
        assert one.seen["acked"] == ("#6fa5e0" if dark else "#3a6ea8")


def test_a_zoom_changes_every_plot_of_the_run_and_the_y_axis_follows(page, tmp_path):
    [seen] = [one.seen for one in look(tmp_path, [page], widths=[WIDE])]
    [shown] = {tuple(one) for one in seen["ranges"]}
    assert shown == (1.5, 26.1)
    # Before the first fault no client catches up.
    assert seen["quiet"][1] < seen["rates"][1]


def broken(page: Path, name: str, old: str, new: str) -> Path:
    source = page.read_text(encoding="utf-8")
    assert old in source
    path = page.with_name(f"{name}.html")
    path.write_text(source.replace(old, new), encoding="utf-8")
    return path


def test_the_browser_check_reports_defects(page, tmp_path):
    """Each page has one defect, and only this is reported."""
    style = "</style>"
    pages = {
        "script": broken(page, "script", '"use strict";', '"use strict"; nonsense();'),
        "wide": broken(page, "wide", style, ".sequence, table { width: 1600px; }</style>"),
        "labels": broken(page, "labels", '"nticks":9', '"nticks":90,"dtick":0.1,"tickangle":0'),
        "tables": broken(page, "tables", "table.classList.add", "String"),
    }
    found: dict[str, list[Look]] = {name: [] for name in pages}
    for one in look(tmp_path, pages.values(), widths=[PHONE]):
        found[one.page.stem].append(one)
    [script], [wide], [labels], [tables] = found.values()
    assert any("nonsense is not defined" in line for line in script.errors)
    assert any(line.startswith("wider than 390") for line in wide.complaints)
    assert any(line.startswith("overlap: run-1-rate") for line in labels.complaints)
    assert any("DIV  scroll" in line for line in tables.complaints)


def test_a_page_without_its_library_says_so_and_has_its_tables(page, tmp_path):
    alone = Path(shutil.copy(page, tmp_path / "alone.html"))
    [one] = look(tmp_path / "look", [alone], widths=[WIDE])
    assert one.seen["plots"] == 0
    assert one.seen["wide"] == []
    assert "need the file plotly" in one.seen["missing"]


def test_a_card_on_a_phone_has_the_whole_name_of_each_column(tmp_path, acks_0, acks_1):
    path = tmp_path / "report.html"
    write_html(path, [acks_0.directory, acks_1.directory], title="labels")
    source = path.read_text(encoding="utf-8").replace("</body>", _LABELS)
    path.write_text(source, encoding="utf-8")
    labels = dumped(path, "data-labels").replace("\u200b", "").split("|")
    assert "enable.idempotence" in labels or "Are acked records lost?" in labels
    assert not [label for label in labels if label.endswith(".")]


_LABELS = """<script>addEventListener("load", () => {
  const cells = [...document.querySelectorAll("[data-label]")];
  document.body.dataset.labels = cells.map((cell) => cell.dataset.label).join("|");
});</script></body>"""
