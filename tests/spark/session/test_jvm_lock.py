"""A lock on a file that the session's JVM holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.products.pipelines.checkpoints.lease import WRITER_FILE, Lease, LeaseError
from moldau.spark.session.jvm_lock import JvmLock
from tests.support.talking_process import line_of, running

ANOTHER = """
import pathlib, sys
from moldau.products.pipelines.checkpoints.lease import Lease, LeaseError
try:
    Lease(pathlib.Path(sys.argv[1]), patience_seconds=0.3)
    print("mine")
except LeaseError as error:
    print(error)
"""


def another(checkpoint: Path) -> str:
    words = [sys.executable, "-c", ANOTHER, str(checkpoint)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.slow
def test_the_jvm_keeps_other_drivers_away_until_its_lock_is_released(spark, tmp_path: Path):
    lease = Lease(tmp_path)
    lease.hold_in(spark)
    process = (tmp_path / WRITER_FILE).read_text().strip()
    assert process == str(spark._jvm.java.lang.ProcessHandle.current().pid())
    lease.release(still_writes=True)
    assert another(tmp_path).startswith(f"process {process} still writes to the checkpoint {tmp_path}")
    with pytest.raises(LeaseError), Lease(tmp_path, beside_writers=True) as second:
        second.hold_in(spark)
    lease._in_jvm.release()
    assert another(tmp_path) == "mine\n"


@pytest.mark.slow
def test_a_file_that_another_process_has_locked_is_refused(spark, tmp_path: Path):
    program = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
    program += "print('held', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", program, str(tmp_path / "file")]
    with running(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert line_of(holder.stdout) == "held\n"
        with pytest.raises(BlockingIOError):
            JvmLock(spark, tmp_path / "file")
        holder.communicate(timeout=60)
    JvmLock(spark, tmp_path / "file").release()
