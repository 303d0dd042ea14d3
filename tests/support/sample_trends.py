"""Made-up trends of a warehouse, as the dashboard reads them."""

from __future__ import annotations

from ackproof.report.dashboard import Trends

OF = {"scenario": "acks", "configuration": "acks=1", "kafka_version": "4.3.1"}


def run(number: int, **changes: object) -> dict[str, object]:
    return {
        "run_id": f"run-{number}",
        **OF,
        "commit_id": f"{number}" + 39 * "a",
        "verdict": "holds",
        "reason": "as expected",
        "outcome": "lost 10 of 1,000 acked records, as expected",
        "report": f"file:///runs/run-{number}/report.html",
        "acked": 1000,
        "lost": 10,
        "duplicated": 0,
        "availability": 0.9,
        "ack_latency_p99_ms": 12.5,
        "started": f"2026-11-{number:02} 12:00:00",
    } | changes


def loss(**changes: object) -> dict[str, object]:
    return {
        **OF,
        "runs": 2,
        "runs_with_loss": 1,
        "runs_with_loss_share": 0.5,
        "runs_with_loss_share_low": 0.1,
        "runs_with_loss_share_high": 0.9,
        "acked": 2000,
        "lost": 20,
        "lost_median": 20.0,
        "lost_least": 20,
        "lost_most": 20,
    } | changes


TRENDS = Trends(
    losses=[loss()],
    duplicates=[
        {**OF, "runs": 3, "runs_with_duplicates": 2, "duplicated": 9, "duplicated_most": 7},
    ],
    recoveries=[
        {
            "run_id": "run-1",
            **OF,
            "fault": "kill",
            "target": "leader of orders-0",
            "recovery_s": 4.5,
            "report": None,
        }
    ],
    runs=[
        run(1),
        run(2, verdict="violated", outcome="lost 10 of 1,000 acked records, <none> expected"),
        run(
            3,
            availability=None,
            ack_latency_p99_ms=None,
            commit_id=None,
            verdict="inconclusive",
            reason="not <all> was read",
            report=None,
        ),
    ],
    causes=[
        {
            **OF,
            "example_report": "file:///runs/run-1/report.html",
            "case_id": case,
            "title": title,
            "runs": runs,
            "lost": lost,
        }
        for case, title, runs, lost in (("B2", "leader lost", 2, 15), ("B4", "unclean", 1, 5))
    ],
)
