"""Search the smallest losing budgets of every configuration class, and store them.

`python -m ackproof_model.bounds [--total N] [--only TEXT]`; `ci/bounds` calls it. Results of the
same source are kept, and extended to a larger total. Ends with 1 if a stored result is refuted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from ackproof_model.bounds.minima import is_current, search_minima, stored, write
from ackproof_model.bounds.question import Question
from ackproof_model.configuration import Acks

#: A version of each set of rules that matters, those that are tested most first.
_VERSIONS = (
    *("4.3.1", "3.9.1", "2.6.2", "0.10.2.2", "4.0.1", "3.6.2", "3.5.2"),
    *("3.4.1", "2.8.2", "2.3.1", "2.0.1", "2.0.0", "1.1.1"),
)
_ALL_ACKS: tuple[Acks, ...] = ("1", "all")


def questions() -> Iterator[Question]:
    """Yield a question of each key, those of three replicas and min.insync.replicas=2 first."""
    found: dict[str, Question] = {}
    for minimum, replicas in ((2, 3), (1, 3), (1, 2), (2, 2), (1, 1), (3, 3)):
        for version in _VERSIONS:
            for acks in _ALL_ACKS:
                for unclean in (False, True):
                    for elr in (False, True) if version >= "4" else (False,):
                        question = Question(
                            kafka_version=version,
                            elr=elr,
                            acks=acks,
                            replicas=replicas,
                            min_insync_replicas=minimum,
                            unclean=unclean,
                        )
                        found.setdefault(question.key, question)
    yield from found.values()


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--total", type=int, default=2, help="perturbations in all")
    options.add_argument("--only", default="", help="only questions whose key has this text")
    given = options.parse_args()
    before = stored()
    results = dict(before) if is_current() else {}
    for question in questions():
        if given.only not in question.key:
            continue
        known = results.get(question.key)
        if known is None or known.searched < given.total:
            result = search_minima(question, total=given.total, known=known)
            results[question.key] = result
            write(results)
            losing = "; ".join(str(one.budget) for one in result.losing) or "nothing"
            _say(f"{question.key}: up to {result.searched}: {losing} ({result.states} states)")
    refuted = [
        key
        for key, result in results.items()
        for one in result.losing
        if key in before and before[key].excludes(one.budget)
    ]
    for key in refuted:
        _say(f"refuted: {key}")
    return 1 if refuted else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
