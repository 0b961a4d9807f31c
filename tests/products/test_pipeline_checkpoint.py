"""Finished batches by Spark's checkpoint, and the lease that allows one driver at a time on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.products.pipelines.checkpoints.checkpoint import (
    CheckpointError,
    forget_unfinished_write,
    newest_finished_batch,
    owes_batch,
)
from moldau.products.pipelines.checkpoints.lease import (
    LEASE_FILE,
    Holder,
    Lease,
    LeaseError,
    WriterLease,
    holder_of,
    leases_below,
)
from moldau.products.pipelines.running.group import lag
from moldau.types import TopicPartition
from tests.support.talking_process import line_of, running

PATIENCE_SECONDS = 0.3
NOBODY = 65_534
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def write_batch(checkpoint: Path, batch_id: int, sources: str, *, is_finished: bool) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch_id)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{sources}')
    if is_finished:
        (checkpoint / "commits" / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_only_a_batch_with_a_commit_is_finished(tmp_path: Path):
    assert newest_finished_batch(tmp_path) is None
    write_batch(tmp_path, 9, '{"a": {"0": 5}, "@topic_ids": {"a": "MTExMTExMTExMTExMTExMQ"}}', is_finished=True)
    write_batch(tmp_path, 10, '{"a": {"0": 8, "1": 2}}', is_finished=True)
    write_batch(tmp_path, 11, '{"a": {"0": 9, "1": 4}}', is_finished=False)
    (tmp_path / "commits" / ".11.tmp").write_text("")
    done = newest_finished_batch(tmp_path)
    assert done is not None
    assert (done.batch_id, done.offsets) == (10, {A0: 8, A1: 2})


@pytest.mark.parametrize(("after", "owes"), [(0, False), (7, True)])
def test_a_batch_that_raised_the_watermark_has_another_one_after_it(tmp_path: Path, after: int, owes: bool):
    write_batch(tmp_path, 3, '{"a": {"0": 5}}', is_finished=True)
    (tmp_path / "commits" / "3").write_text(f'v1\n{{"nextBatchWatermarkMs":{after}}}')
    assert owes_batch(tmp_path, 3) is owes
    (tmp_path / "commits" / "3").write_text("v1")
    with pytest.raises(CheckpointError, match="not the commit of a batch"):
        owes_batch(tmp_path, 3)


def test_of_a_source_read_twice_that_counts_which_both_have_read(tmp_path: Path):
    write_batch(tmp_path, 0, '{"a": {"0": 8}}\n{"a": {"0": 6}}', is_finished=True)
    done = newest_finished_batch(tmp_path)
    assert done is not None
    assert done.offsets == {A0: 6}


def test_what_a_kill_left_of_the_first_offsets_is_deleted_and_nothing_else(tmp_path: Path):
    offsets, write = tmp_path / "offsets", ".0.2a026a6a-c8aa-4263-83f9-36b7459fb22a.tmp"
    forget_unfinished_write(tmp_path)
    offsets.mkdir()
    for name in (write, f".{write}.crc", "notes", ".0.mine.tmp"):
        (offsets / name).touch()
    forget_unfinished_write(tmp_path)
    assert {path.name for path in offsets.iterdir()} == {"notes", ".0.mine.tmp"}
    (offsets / "0").touch()
    (offsets / write.replace(".0.", ".1.")).touch()
    forget_unfinished_write(tmp_path)
    assert len(list(offsets.iterdir())) == 4, "Spark begins its second batch beside them"


@pytest.mark.parametrize("text", ["", "v9\n{}\n{}", "v1\n{}\nnonsense", "v1\n{}\n[1]"])
def test_a_strange_file_is_named(tmp_path: Path, text: str):
    write_batch(tmp_path, 0, "{}", is_finished=True)
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(CheckpointError, match="offsets/0"):
        newest_finished_batch(tmp_path)


def test_lag_counts_from_the_first_offset_where_nothing_is_done():
    assert lag({A0: (10, 100), A1: (10, 30)}, {A0: 90}) == 10 + 20
    assert lag({A0: (10, 100)}, {A0: 100}) == 0
    assert lag({A0: (50, 100)}, {A0: 20}) == 50


def test_a_second_driver_is_refused_while_the_first_lives(tmp_path: Path):
    with Lease(tmp_path / "state"), pytest.raises(LeaseError, match="runs a pipeline"):
        Lease(tmp_path / "state")
    Lease(tmp_path / "state").release()


def test_who_may_only_read_the_checkpoint_sees_who_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with Lease(tmp_path / "state"):
        tmp_path.chmod(0o755)
        (tmp_path / "state" / LEASE_FILE).chmod(0o444)
        monkeypatch.chdir(tmp_path)
        own = os.geteuid()
        try:
            if own == 0:
                os.seteuid(NOBODY)
            assert holder_of(Path("state")) == Holder(os.getpid())
        finally:
            os.seteuid(own)


WRITER = """
import pathlib, sys
from moldau.products.pipelines.checkpoints.lease import WriterLease
writer = WriterLease(pathlib.Path(sys.argv[1]), sys.argv[2])
print("writes", flush=True)
for _ in sys.stdin:
    writer.check()
    print("may write", flush=True)
"""


@contextmanager
def writing(checkpoint: Path, token: str) -> Iterator[subprocess.Popen[str]]:
    """A process that stands for the one of a Spark Connect server that writes; each line of its input is a batch."""
    words = [sys.executable, "-c", WRITER, str(checkpoint), token]
    with running(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert line_of(writer.stdout) == "writes\n"
        yield writer


def test_a_writer_on_a_server_keeps_every_other_driver_and_writer_away(tmp_path: Path):
    """The writer holds its lock until its process ends."""
    with Lease(tmp_path, beside_writers=True) as driver:
        token = driver.token
        with writing(tmp_path, token) as writer:
            driver.release()  # it was killed, or seems to be
            writer.stdin.write("batch\n")
            writer.stdin.flush()
            assert line_of(writer.stdout) == "may write\n"
            with pytest.raises(LeaseError, match=f"process {writer.pid} still writes to the checkpoint"):
                Lease(tmp_path, patience_seconds=PATIENCE_SECONDS)
            with pytest.raises(LeaseError, match=f"process {writer.pid} still writes"):
                WriterLease(tmp_path, token, patience_seconds=PATIENCE_SECONDS)
            Lease(tmp_path, beside_writers=True).release()
            assert "no batch is begun any more" in writer.communicate("batch\n", timeout=30)[1]
    Lease(tmp_path).release()


def test_a_writer_whose_driver_has_gone_on_does_not_begin(tmp_path: Path):
    with Lease(tmp_path, beside_writers=True) as driver:
        token = driver.token
        driver.withdraw()
        with pytest.raises(LeaseError, match="no batch is begun any more"):
            WriterLease(tmp_path, token)
    Lease(tmp_path).release()


def test_each_query_of_a_pipeline_has_its_lease_and_a_reset_takes_all(tmp_path: Path):
    orders, former = tmp_path / "orders", tmp_path / "former"
    with Lease(former) as lease:
        Lease(orders).release()
        assert holder_of(tmp_path) == Holder(os.getpid())
        with (
            pytest.raises(LeaseError, match=r"runs a pipeline on the checkpoint .*former"),
            leases_below(tmp_path, [orders]),
        ):
            pass
        Lease(orders).release()
        lease.release()
    with leases_below(tmp_path, [orders]), pytest.raises(LeaseError, match="orders"):
        Lease(orders)
    with Lease(orders, is_shared=True):
        assert holder_of(tmp_path) == Holder(os.getpid(), is_shared=True)
    assert holder_of(tmp_path) is None
