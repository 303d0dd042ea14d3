"""What `ci/lab/superset` takes for a dashboard that does not draw."""

from __future__ import annotations

import pytest
from superset import undrawn

PAGE = "<h1>Lost acked records</h1><b>5,465</b><h1>Why records were lost</h1>"
TITLES = ["Lost acked records", "Why records were lost"]
ANSWER = '127.0.0.1 - - [30/Nov/2026] "POST /api/v1/chart/data?form_data=7 HTTP/1.1" 200 12\n'


def test_a_page_with_every_panel_and_its_answers_is_drawn() -> None:
    assert not undrawn(PAGE, 2 * ANSWER, titles=TITLES, lost=5465)


@pytest.mark.parametrize(
    ("page", "log", "problem"),
    [
        (PAGE.replace("Why", "How"), 2 * ANSWER, "no panel 'Why records were lost'"),
        (PAGE, ANSWER, "1 queries were asked for 2 panels"),
        (
            PAGE,
            ANSWER + ANSWER.replace("200 12", "400 12"),
            "1 queries of panels were refused: 400",
        ),
        (PAGE.replace("5,465", "5,464"), 2 * ANSWER, "5,465 lost records are not shown"),
        (PAGE + "No results were returned for this query", 2 * ANSWER, "a panel is empty"),
    ],
)
def test_a_panel_that_does_not_draw_is_named(page: str, log: str, problem: str) -> None:
    assert undrawn(page, log, titles=TITLES, lost=5465) == [problem]
