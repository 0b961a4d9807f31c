"""moldau.testing: the broker's time moves ahead, and its effects have happened when `advance` returns."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from moldau.errors import KafkaError
from moldau.testing import Cluster
from tests.unit.testing.clients import make_consumer


def test_the_clock_moves_and_stays_moved_over_a_restart() -> None:
    with Cluster() as cluster:
        before = cluster.now_ms()
        cluster.advance(days=1, hours=1, minutes=1, seconds=1.5)
        moved = cluster.now_ms() - before
        assert moved >= 90_061_500
        cluster.restart(clean=False)
        assert cluster.now_ms() - before >= moved
        cluster.kill()
        cluster.advance(hours=1)
        cluster.restart()
        (record,) = cluster.produce("t", "now")
        assert record.timestamp - before >= moved + 3_600_000
        with pytest.raises(ValueError, match="cannot go back"):
            cluster.advance(seconds=-1)


def test_retention_has_taken_what_is_too_old() -> None:
    with Cluster() as cluster:
        cluster.create_topic("kept-an-hour", config={"retention.ms": 3_600_000})
        cluster.produce("kept-an-hour", "old", "older")
        cluster.advance(minutes=59)
        assert len(list(cluster.records("kept-an-hour"))) == 2
        cluster.produce("kept-an-hour", "young")
        cluster.advance(minutes=1, seconds=1)
        # a whole segment is deleted once its youngest record is too old
        assert [record.value for record in cluster.records("kept-an-hour")] == [b"old", b"older", b"young"]
        cluster.advance(hours=2)
        assert list(cluster.records("kept-an-hour")) == []
        assert cluster.record_counts("kept-an-hour") == {0: 0}


def test_old_records_stay_in_a_cluster_that_runs_for_long() -> None:
    with Cluster() as cluster:
        cluster.produce("last-year", "old", timestamp=1_700_000_000_000)
        # only the timers of the loop, as in a suite that takes an hour, without a call of `advance`
        cluster._members[1]._travel.loop_ahead_s += 3_600
        for number in range(5):
            cluster.create_topic(f"turn-{number}")
        assert [record.value for record in cluster.records("last-year")] == [b"old"]
        cluster.advance(seconds=1)
        assert list(cluster.records("last-year")) == []


def test_a_week_in_one_step_takes_no_time_of_ours() -> None:
    with Cluster() as cluster:
        cluster.produce("t", "1")
        cluster.advance(days=6)
        assert len(list(cluster.records("t"))) == 1
        cluster.advance(days=8)
        assert list(cluster.records("t")) == []


def test_a_member_that_is_silent_is_out_of_its_group() -> None:
    with Cluster() as cluster:
        cluster.produce("t", "1")
        consumer = make_consumer(cluster, "g", **{"session.timeout.ms": 30_000, "heartbeat.interval.ms": 10_000})
        consumer.subscribe(["t"])
        assert consumer.poll(30) is not None
        cluster.wait_for(group="g", members=1)
        cluster.advance(seconds=31)
        # An empty group without offsets is deleted, now or in a moment: then no group can be shown.
        with contextlib.suppress(KafkaError):
            assert cluster.group("g").members == ()
        consumer.close()


def test_a_member_that_lives_joins_again() -> None:
    with Cluster() as cluster:
        cluster.produce("t", "1")
        consumer = make_consumer(cluster, "g", **{"session.timeout.ms": 6_000, "heartbeat.interval.ms": 100})
        consumer.subscribe(["t"])
        assert consumer.poll(30) is not None
        consumer.commit(asynchronous=False)
        cluster.advance(minutes=1)
        cluster.produce("t", "2")
        seen = []

        def reads_on() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                seen.append(message.value())
            return seen == [b"2"] and len(cluster.group("g").members) == 1

        cluster.wait_for(reads_on, timeout=30)
        consumer.close()


def test_offsets_expire() -> None:
    with Cluster(settings={"offsets.retention.minutes": "60"}) as cluster:
        cluster.create_topic("t")
        consumer = make_consumer(cluster, "g")
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        consumer.close()
        cluster.advance(minutes=50)
        assert cluster.lag("g") == 0
        cluster.advance(minutes=11)
        with pytest.raises(KafkaError, match="committed nothing"):
            cluster.lag("g")


@pytest.mark.parametrize("is_on_disk", [False, True], ids=["memory", "disk"])
def test_compaction_has_kept_the_last_of_each_key(tmp_path: Path, is_on_disk: bool) -> None:
    with Cluster(data_dir=tmp_path if is_on_disk else None) as cluster:
        config = {"cleanup.policy": "compact", "segment.ms": 60_000, "min.cleanable.dirty.ratio": 0.01}
        cluster.create_topic("t", config=config)
        for number in range(20):
            cluster.produce("t", str(number), key=f"k{number % 2}")
        cluster.advance(hours=1)
        cluster.produce("t", "new", key="k0")  # rolls the segment, which is clean only once it is closed
        cluster.advance(hours=1)
        assert [(record.offset, record.value) for record in cluster.records("t")][:2] == [(18, b"18"), (19, b"19")]


def test_traffic_does_not_hold_time_up() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t", config={"retention.ms": 60_000})
        cluster.produce("t", *map(str, range(100)))
        consumers = [make_consumer(cluster, f"g{number}", **{"fetch.wait.max.ms": 1}) for number in range(2)]
        for consumer in consumers:
            consumer.assign([TopicPartition("t", 0, 0)])
            assert consumer.poll(30) is not None
        cluster.advance(hours=1)
        assert list(cluster.records("t")) == []
        for consumer in consumers:
            consumer.close()
