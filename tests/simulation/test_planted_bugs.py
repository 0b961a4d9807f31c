"""The simulator finds bugs: each is planted into a copy of the package and must break a rule within the fixed seeds.

A bug is a list of (file, what stands there, what is planted). What stands there must stand there once: who changes that
code moves the bug with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import moldau

PACKAGE = Path(moldau.__file__).parent
LAST_SEED = 40


class Bug(msgspec.Struct, frozen=True):
    """`rules`: those that may be reported, whichever is broken first."""

    name: str
    rules: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]


BUGS = (
    Bug(
        "acknowledge before append",
        (
            "acknowledged records survive",
            "an offset keeps its value",
            "no duplicates",
            "invariants hold",
            "no unexpected refusals",
        ),
        (
            (
                "shell/broker/handlers/produce.py",
                "            appended = partition.append(records, now_ms)\n",
                "            from moldau.core.log.appending import Appended\n\n"
                "            def append_later(partition=partition, records=bytearray(records)):\n"
                "                try:\n"
                "                    partition.append(records, now_ms)\n"
                "                except KafkaError:\n"
                "                    pass\n\n"
                "            if partition.waits_for_flush:\n"
                "                appended = partition.append(records, now_ms)\n"
                "            else:\n"
                "                next_offset = partition.log.log_end_offset\n"
                "                last_offset = next_offset + int.from_bytes(records[23:27], 'big')\n"
                "                appended = Appended(next_offset, last_offset, -1, 0)\n"
                "                broker.loop.call_later(0.002, append_later)\n",
            ),
        ),
    ),
    Bug(
        "forget producer state at restart",
        ("no duplicates", "a producer's order is kept"),
        (
            (
                "core/log/recovery.py",
                "            producers.load(segment.disk.read_file(path), base, now_ms)\n",
                "            producers.clear(base)\n",
            ),
            (
                "core/log/recovery.py",
                "    producer_id, epoch, base_sequence = fields[9], fields[10], fields[11]\n",
                "    producer_id, epoch, base_sequence = fields[9], fields[10], fields[11]\n    return\n",
            ),
        ),
    ),
    Bug(
        "recover past a torn tail",
        ("CRCs are valid", "batches are well-formed", "nothing fails unseen"),
        (
            (
                "core/log/recovery.py",
                "            if crc32c(data[local + ATTRIBUTES_POSITION : end]) != crc:\n",
                "            if crc32c(data[local + ATTRIBUTES_POSITION : end]) != crc and False:\n",
            ),
        ),
    ),
    Bug(
        "a high watermark above the log end",
        ("invariants hold",),
        (
            (
                "core/replication/partition.py",
                "            self.high_watermark = Offset(log.log_end_offset)\n        return appended\n",
                "            self.high_watermark = Offset(log.log_end_offset + 1)\n        return appended\n",
            ),
        ),
    ),
    Bug(
        "answer before the flush",
        ("acknowledged records survive", "no unexpected refusals"),
        (
            (
                "shell/broker/handlers/produce.py",
                "explain(results, now_ms, answer))\n    if waiting:\n",
                "explain(results, now_ms, answer))\n    if waiting and acks == 7:\n",
            ),
        ),
    ),
    Bug(
        "flush no data",
        ("acknowledged records survive",),
        (("core/log/flush.py", "            segment.file.flush()\n", "            segment.file.size()\n"),),
    ),
    Bug(
        "flush no names",
        ("acknowledged records survive", "the node starts and stops"),
        (
            (
                "core/log/flush.py",
                "            self._disk.flush_directory(self._directory)\n",
                "            self._disk.exists(self._directory)\n",
            ),
        ),
    ),
    Bug(
        "append a repeat once more",
        ("no duplicates", "a producer's order is kept", "idempotent batches are taken"),
        (
            (
                "core/log/log.py",
                "            if duplicate is not None:\n",
                "            if duplicate is not None and duplicate[2] < 0:\n",
            ),
        ),
    ),
    Bug(
        "log a committed offset as a deletion",
        ("committed offsets never go back",),
        (
            (
                "shell/broker/coordinators.py",
                "            records = [(*encode_group_record(record), now_ms, ()) for record in output.records]\n",
                "            records = [(*encode_group_record(record), now_ms, ()) for record in output.records]\n"
                "            records = [(k, None if k[1] == 1 else v, now_ms, ()) for k, v, _, _ in records]\n",
            ),
        ),
    ),
    Bug(
        "give each member all partitions",
        ("members get what the leader gave them", "one owner per partition and generation"),
        (
            (
                "core/groups/classic/sync.py",
                'given.get(member.member_id, b"")',
                'max(given.values(), default=b"")',
            ),
        ),
    ),
    Bug(
        "answer the creation of a topic before its flush",
        (
            "topics are what was acknowledged",
            "created topics exist",
            "settings are what was acknowledged",
            "one owner per partition and generation",
            "generations never go back",
            "acknowledged records survive",
        ),
        (
            (
                "shell/quorum/role.py",
                "            self._begin_flush()\n            if host.stopped",
                "            self._commit(appended.last_offset + 1)\n            if host.stopped",
            ),
        ),
    ),
    Bug(
        "keep a view of the receive buffer",
        ("CRCs are valid", "nothing fails unseen", "no unexpected refusals", "batches are well-formed"),
        (
            (
                "shell/broker/handlers/produce.py",
                "            appended = partition.append(records, now_ms)\n",
                "            from moldau.core.log.appending import Appended\n\n"
                "            next_offset = partition.log.log_end_offset\n"
                "            last_offset = next_offset + int.from_bytes(records[23:27], 'big')\n"
                "            appended = Appended(next_offset, last_offset, -1, 0)\n"
                "            broker.loop.call_soon(partition.append, records, now_ms)\n",
            ),
        ),
    ),
    Bug(
        "compaction drops the last record of a key",
        ("acknowledged records are readable",),
        (
            (
                "core/log/cleaned_records.py",
                "                    is_kept = offset >= last_offset\n",
                "                    is_kept = offset > last_offset\n",
            ),
        ),
    ),
    Bug(
        "compaction keeps the first record of a key",
        ("acknowledged records are readable",),
        (
            (
                "core/log/cleaned_records.py",
                "                offsets[key if len(key) <= SHORT_KEY_BYTES else short_key(key)] = offset\n",
                "                offsets.setdefault(key if len(key) <= SHORT_KEY_BYTES else short_key(key), offset)\n",
            ),
            (
                "core/log/cleaned_records.py",
                "                    is_kept = offset >= last_offset\n",
                "                    is_kept = offset <= last_offset\n",
            ),
        ),
    ),
    Bug(
        "compaction swaps files in that are not flushed",
        ("acknowledged records survive", "acknowledged records are readable", "the node starts and stops"),
        (
            (
                "core/log/compaction.py",
                "            try:\n                file.flush()\n            finally:\n                file.close()\n",
                "            file.close()\n",
            ),
        ),
    ),
    Bug(
        "an unset setting stays",
        ("settings are what was acknowledged",),
        (
            (
                "core/metadata/fold.py",
                "            values.pop(record.name, None)\n",
                "            values.get(record.name, None)\n",
            ),
        ),
    ),
    Bug(
        "a setting is answered and not logged",
        ("settings are what was acknowledged",),
        (
            (
                "core/controller/config_alterations.py",
                "    return [] if request.validate_only else records, IncrementalAlterConfigsResponse(",
                "    return [], IncrementalAlterConfigsResponse(",
            ),
        ),
    ),
    Bug(
        "a deleted group keeps its positions",
        ("committed offsets never go back",),
        (
            (
                "core/groups/expiry.py",
                "        turn.records.append(OffsetRecord(key, None))\n    turn.records.append(_end_of(group))\n",
                "        pass\n    turn.records.append(_end_of(group))\n",
            ),
        ),
    ),
    Bug(
        "a deleted position stays",
        ("committed offsets never go back",),
        (
            (
                "core/groups/expiry.py",
                "        turn.records.append(OffsetRecord(OffsetCommitKey(message.group_id, name, index), None))\n",
                "        pass\n",
            ),
        ),
    ),
    Bug(
        "positions never expire",
        ("committed offsets never go back",),
        (("core/groups/expiry.py", "    return is_old and not", "    return is_old and False and not"),),
    ),
    Bug(
        "positions expire a hundred times too early",
        ("committed offsets never go back",),
        (
            (
                "core/groups/expiry.py",
                "        is_old = turn.wall_ms - since_ms >= turn.settings.offsets_retention_ms\n",
                "        is_old = turn.wall_ms - since_ms >= turn.settings.offsets_retention_ms // 100\n",
            ),
        ),
    ),
    Bug(
        "deleted records come back",
        ("the log start never goes back",),
        (
            (
                "shell/broker/handlers/delete_records.py",
                "        await broker.checkpoints.save_log_start_offsets()\n",
                "        pass\n",
            ),
        ),
    ),
)


def plant(bug: Bug, directory: Path) -> Path:
    """A copy of the package with the bug in it; gives what to put on PYTHONPATH."""
    copy = directory / "moldau"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in bug.changes:
        path = copy / name
        source = path.read_text()
        assert source.count(old) == 1, f"{name}: what the bug replaces stands there {source.count(old)} times"
        path.write_text(source.replace(old, new))
    return directory


def simulate(python_path: Path, seeds: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moldau.simulation", "--seeds", seeds, "--max-failures", "1"],
        env={**os.environ, "PYTHONPATH": str(python_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found_within_the_fixed_seeds(bug, tmp_path):
    result = simulate(plant(bug, tmp_path), f"1..{LAST_SEED}")
    assert result.returncode == 1, result.stdout[-2_000:] + result.stderr[-2_000:]
    found = re.search(r"^seed (\d+): BROKEN (.*)$", result.stdout, re.MULTILINE)
    assert found is not None, result.stdout[-2_000:] + result.stderr[-2_000:]
    assert found[2] in bug.rules, result.stdout[-2_000:]


@pytest.mark.slow
def test_the_same_seeds_break_no_rule_without_a_bug(tmp_path):
    result = simulate(plant(Bug("none", (), ()), tmp_path), f"1..{LAST_SEED}")
    assert result.returncode == 0, result.stdout[-5_000:] + result.stderr[-2_000:]
