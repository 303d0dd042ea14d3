"""The tree of errors, and the translation of the errors of other packages into it."""

from __future__ import annotations

import re

import pytest
from docker.errors import DockerException
from requests import RequestException

from ackproof import errors
from ackproof.errors import AckproofError, ExitCode, translated
from ackproof_faults.evidence import FaultError
from ackproof_spark import errors as analysis


def test_the_docstring_lists_every_error_with_its_exit_code() -> None:
    drawn = re.findall(r"^    \+-- (\w+) +(\d) ", errors.__doc__ or "", flags=re.MULTILINE)
    assert dict(drawn) == {
        kind.__name__: str(int(kind.exit_code)) for kind in AckproofError.__subclasses__()
    }


@pytest.mark.parametrize(
    ("raised", "expected", "code"),
    [
        (FaultError("no such container"), errors.ClusterError, ExitCode.ENVIRONMENT),
        (analysis.HistoryError("op 0"), errors.HistoryError, ExitCode.USAGE),
        (analysis.WarehouseError("format 9"), errors.WarehouseError, ExitCode.USAGE),
        (analysis.RunError("no ledger"), errors.RunDirectoryError, ExitCode.USAGE),
        (analysis.ConnectorMissing("no jar"), errors.SparkError, ExitCode.ENVIRONMENT),
        (analysis.AnalysisError("no Java"), errors.SparkError, ExitCode.ENVIRONMENT),
    ],
)
def test_errors_of_other_packages_join_the_tree(
    raised: Exception, expected: type[AckproofError], code: ExitCode
) -> None:
    with pytest.raises(AckproofError) as caught, translated():
        raise raised
    assert type(caught.value) is expected
    assert caught.value.exit_code == code
    assert caught.value.message == str(raised)


@pytest.mark.parametrize("raised", [DockerException("down"), RequestException("aborted")])
def test_a_vanished_engine_is_an_engine_error(raised: Exception) -> None:
    with pytest.raises(errors.EngineError) as caught, translated():
        raise raised
    assert caught.value.message == f"the container engine failed: {raised}"
    assert "`ackproof clean`" in caught.value.hint
