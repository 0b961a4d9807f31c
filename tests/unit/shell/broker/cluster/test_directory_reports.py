"""The controller learns the log directory of a partition, even after it was away for a while."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.errors import kafka_error
from moldau.shell.broker.cluster.directory_reports import DirectoryReports
from moldau.shell.broker.logs.moves import ReplicaMoves
from moldau.shell.broker.partitions import Partitions, StoredPartitions
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import AssignReplicasToDirsRequest
from tests.support.moves import PARTITION, two_directories, write

TOPIC_ID = Uuid(b"t" * 16)
HERE, THERE = Uuid(b"h" * 16), Uuid(b"e" * 16)


class Controller:
    """Across the network: `asked` has the epoch and the partitions of each request. It accepts none while it is away,
    and answers none while `gate` is closed."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, dict[int, Uuid]]] = []
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def submit(self, request: AssignReplicasToDirsRequest) -> None:
        told = {
            row.partition_index: directory.id
            for directory in request.directories
            for topic in directory.topics
            for row in topic.partitions
        }
        self.asked.append((request.broker_epoch, told))
        is_away = self.is_away
        await self.gate.wait()
        if is_away:
            raise kafka_error("REQUEST_TIMED_OUT")


async def reporting(start_node: Any) -> tuple[Controller, DirectoryReports]:
    node, controller = await start_node(), Controller()
    reports = DirectoryReports(node.node.broker.own_node, controller.submit)
    reports.registered(10)
    return controller, reports


def test_a_report_that_the_controller_did_not_take_is_sent_again_with_what_is_newer(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        controller, reports = await reporting(start_node)
        controller.is_away = True
        reports.add(TOPIC_ID, 0, HERE)
        reports.add(TOPIC_ID, 1, HERE)
        await asyncio.sleep(0.01)
        reports.add(TOPIC_ID, 1, THERE)
        reports.registered(11)
        controller.is_away = False
        await asyncio.sleep(60)
        assert controller.asked == [(10, {0: HERE, 1: HERE}), (11, {0: HERE, 1: THERE})]

    in_virtual_time(story)


def test_a_missing_controller_is_asked_ever_less_often_and_gets_the_report_later(
    in_virtual_time: Any,
) -> None:
    async def story(start_node: Any) -> None:
        controller, reports = await reporting(start_node)
        controller.is_away = True
        reports.add(TOPIC_ID, 0, HERE)
        await asyncio.sleep(1_000)
        asked = len(controller.asked)
        assert 50 < asked < 120
        controller.is_away = False
        await asyncio.sleep(11)
        assert len(controller.asked) == asked + 1

    in_virtual_time(story)


def test_what_a_move_has_reported_is_not_overwritten_by_an_older_report(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        controller, reports = await reporting(start_node)
        for is_under_way in (False, True):
            controller.is_away = True
            if is_under_way:
                controller.gate.clear()
            reports.add(TOPIC_ID, 0, HERE)
            await asyncio.sleep(0.01)
            controller.is_away = False
            moved = asyncio.ensure_future(reports.report(TOPIC_ID, 0, THERE))
            await asyncio.sleep(0.01)
            controller.gate.set()
            await moved
            await asyncio.sleep(60)
            assert controller.asked == [(10, {0: HERE}), (10, {0: THERE})]
            controller.asked.clear()

    in_virtual_time(story)


def test_what_a_move_reports_waits_for_the_report_that_is_under_way(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        controller, reports = await reporting(start_node)
        controller.gate.clear()
        reports.add(TOPIC_ID, 0, HERE)
        await asyncio.sleep(0.01)
        moved = asyncio.ensure_future(reports.report(TOPIC_ID, 0, THERE))
        await asyncio.sleep(1)
        assert controller.asked == [(10, {0: HERE})]  # and retried until it has a response
        controller.gate.set()
        await moved
        assert controller.asked == [(10, {0: HERE}), (10, {0: THERE})]

    in_virtual_time(story)


def test_a_move_whose_note_got_no_answer_is_taken_back_in_the_metadata(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        running, here, there = await two_directories(start_node)
        write(running, 3)
        broker = running.node.broker
        await asyncio.sleep(1)  # the broker reports the partition's new place
        noted: list[Uuid | None] = []

        async def submit(request: AssignReplicasToDirsRequest) -> None:
            await broker.submit(request)
            noted.append(broker.image.directory_of(1, PARTITION))
            if len(noted) == 1:
                raise kafka_error("REQUEST_TIMED_OUT")

        node = broker.own_node
        reports = DirectoryReports(node, submit)
        reports.registered(broker.broker_epoch)
        stored = StoredPartitions(broker.partitions.logs, broker.partitions.flusher, broker.partitions.checkpoints)
        partitions = Partitions(
            node,
            stored,
            reports,
            broker.waits,
            broker.replication,
            broker.partition_appended,
        )
        partitions.apply(broker.image, broker.image.as_delta())
        moves = ReplicaMoves(node, partitions)
        moves.move(partitions.find("t", 0), there)
        await asyncio.sleep(60)
        assert PARTITION in here.logs
        assert noted == [there.directory_id, here.directory_id]

    in_virtual_time(story)
