"""What every client program has in common."""

import subprocess
import sys

import pytest

CODE = """
import sys
from ackproof.clients import program
{first}
import pyarrow
assert pyarrow.array([1, 2]).to_pylist() == [1, 2]
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    ("first", "imported"), [("program.without_pandas()", "False"), ("", "True")]
)
def test_arrays_of_a_client_do_not_import_pandas(first: str, imported: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(first=first)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == imported


def test_clients_load_no_fault() -> None:
    """They are half of what a client would import, in each of a run's many processes."""
    code = (
        "import sys\n"
        "from ackproof.clients import consumer, probe, producer, share_consumer\n"
        "print(*[name for name in sys.modules if name.startswith('ackproof_faults.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needed = {"ackproof_faults.conditions", "ackproof_faults.conditions.durations"}
    assert set(done.stdout.split()) <= needed
