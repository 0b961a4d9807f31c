"""When a formerly full log directory is used again, and its spare file."""

from __future__ import annotations

from moldau.core.log.directories.room import (
    FIRST_WAIT_MS,
    LAST_WAIT_MS,
    SPARE_BYTES,
    SPARE_FILE,
    Room,
    keep_spare,
    release_spare,
)
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk

GIB = 1 << 30


def test_five_percent_of_the_volume_but_at_most_256_mib_must_be_free() -> None:
    for total, share in ((20 << 20, 1 << 20), (100 * GIB, GIB // 4)):
        room = Room()
        assert room.refused(0)
        assert not room.looked(total, share + SPARE_BYTES - 1, FIRST_WAIT_MS)
        assert room.is_full
        assert room.looked(total, share + SPARE_BYTES, 2 * FIRST_WAIT_MS)
        assert not room.is_full


def test_a_directory_that_fills_again_soon_is_looked_at_after_twice_the_time() -> None:
    room, now_ms, waits = Room(), 0, []
    for _ in range(14):
        assert room.refused(now_ms)
        assert not room.refused(now_ms)
        before_ms = now_ms
        while not room.is_look_due(now_ms):
            now_ms += 500
        waits.append(now_ms - before_ms)
        assert room.looked(-1, -1, now_ms)
    assert waits[:4] == [FIRST_WAIT_MS, 2 * FIRST_WAIT_MS, 4 * FIRST_WAIT_MS, 8 * FIRST_WAIT_MS]
    assert waits[-1] == LAST_WAIT_MS
    now_ms += 2 * LAST_WAIT_MS
    assert room.refused(now_ms)
    assert room.is_look_due(now_ms + FIRST_WAIT_MS)


def test_the_spare_file_is_kept_where_there_is_room_and_given_up_once() -> None:
    disk = MemoryDisk()
    disk.fail(Fault("write", "full"))
    keep_spare(disk)
    assert not disk.exists(SPARE_FILE)
    assert not release_spare(disk)
    disk.heal()
    keep_spare(disk)
    assert disk.used_bytes() == SPARE_BYTES
    assert release_spare(disk)
    assert disk.used_bytes() == 0
