"""`moldau transactions list|describe|abort|find-hanging`: transactional producers and their open transactions."""

from __future__ import annotations

import argparse
import time

from moldau.cli.arguments import Subparsers, duration_ms, int32, int64
from moldau.cli.cluster import add_cluster_arguments, cluster_admin
from moldau.cli.output import CommandError, print_json, print_rows

_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")
_LONGEST = "15m"
"""The default of `transaction.max.timeout.ms`."""


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("transactions", help="transactional producers, and transactions that hang")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser(
        "list",
        help="list transactional ids",
        examples=("moldau transactions list", "moldau transactions list --state Ongoing --longer-than 1m"),
    )
    listing.add_argument(
        "--state",
        action="append",
        default=[],
        choices=_STATES,
        metavar="STATE",
        help=f"only ids in this state ({', '.join(_STATES)}); may be repeated",
    )
    listing.add_argument(
        "--producer-id", action="append", default=[], type=int64, metavar="N", help="only this one; may be repeated"
    )
    listing.add_argument(
        "--longer-than", type=duration_ms, default=-1, metavar="DURATION", help="only those open for longer: 90s, 15m"
    )
    listing.add_argument("--regex", "-r", metavar="PATTERN", help="only ids that this regular expression matches whole")
    add_cluster_arguments(listing, list_transactions)

    describe = verbs.add_parser(
        "describe",
        help="show the producer, the state and the partitions of a transactional id",
        examples=("moldau transactions describe copier-1",),
    )
    describe.add_argument("transactional_id", metavar="TRANSACTIONAL_ID")
    add_cluster_arguments(describe, describe_transaction, rights={"transactional-id": "describe"})

    abort = verbs.add_parser(
        "abort",
        help="end a transaction by hand",
        description="Aborts what is open under a transactional id, and fences its producer; or, with --start-offset, "
        "writes an abort marker to one partition, for a transaction that find-hanging has found.",
        examples=(
            "moldau transactions abort copier-1",
            "moldau transactions abort --partition orders:0 --start-offset 1700",
        ),
    )
    abort.add_argument("transactional_id", nargs="?", metavar="TRANSACTIONAL_ID")
    abort.add_argument("--partition", metavar="TOPIC:0", help="of the transaction that hangs")
    abort.add_argument("--start-offset", type=int64, metavar="OFFSET", help="where the transaction begins there")
    add_cluster_arguments(abort, abort_transaction)

    hanging = verbs.add_parser(
        "find-hanging",
        help="list open transactions that no coordinator will end",
        description="Lists open transactions that no coordinator will end: readers of committed records get nothing "
        "that stands behind them. Without a topic, of all partitions.",
        examples=("moldau transactions find-hanging", "moldau transactions find-hanging orders:0 --longer-than 1h"),
    )
    hanging.add_argument("topic", nargs="*", default=[], metavar="TOPIC[:0,1]")
    hanging.add_argument("--broker", type=int32, metavar="N", help="look at the replicas on this broker")
    hanging.add_argument(
        "--longer-than", type=duration_ms, default=_LONGEST, metavar="DURATION", help=f"default {_LONGEST}"
    )
    add_cluster_arguments(hanging, find_hanging)


def list_transactions(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import transactions as questions

    with cluster_admin(arguments) as admin:
        found = questions.list_transactions(
            admin,
            # brokers count from the start of the last transaction, even if it has ended, and from 1970 if none began
            states=arguments.state or (questions.OPEN_STATES if arguments.longer_than >= 0 else ()),
            producer_ids=arguments.producer_id,
            longer_than_ms=arguments.longer_than,
            pattern=arguments.regex,
        )
    rows: list[dict[str, object]] = [
        {
            "transactional_id": row.transactional_id,
            "state": row.state,
            "producer_id": row.producer_id,
            "coordinator": row.coordinator_id,
        }
        for row in found
    ]
    is_filtered = arguments.state or arguments.producer_id or arguments.longer_than >= 0 or arguments.regex
    empty = "no transactional id is like that" if is_filtered else "no transactional ids yet"
    columns = ["transactional_id", "state", "producer_id", "coordinator"]
    print_rows(rows, columns, as_json=arguments.json, empty=empty)
    return 0


def describe_transaction(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import transactions as questions
    from moldau.errors import KafkaError

    with cluster_admin(arguments) as admin:
        try:
            found = questions.describe_transaction(admin, arguments.transactional_id)
        except KafkaError as error:
            if error.name != "TRANSACTIONAL_ID_NOT_FOUND":
                raise
            raise CommandError(f"unknown transactional id: {arguments.transactional_id}") from error
    # the broker still knows the start time of an ended transaction
    is_open = found.state in questions.OPEN_STATES and found.start_time_ms >= 0
    open_ms = max(0, _now_ms() - found.start_time_ms) if is_open else None
    rows: list[dict[str, object]] = [
        {"topic": partition.topic, "partition": partition.partition} for partition in found.partitions
    ]
    if arguments.json:
        print_json(
            {
                "transactional_id": found.transactional_id,
                "state": found.state,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "timeout_ms": found.timeout_ms,
                "open_ms": open_ms,
                "coordinator": found.coordinator_id,
                "partitions": rows,
            }
        )
        return 0
    age = "" if open_ms is None else f", open for {open_ms / 1000:.1f} s of {found.timeout_ms / 1000:g} s"
    print(f"{found.transactional_id}: {found.state}, producer {found.producer_id} epoch {found.producer_epoch}{age}")
    if rows:
        print_rows(rows, ["topic", "partition"], as_json=False)
    return 0


def abort_transaction(arguments: argparse.Namespace) -> int:
    from moldau.cli.administration.offsets import partitions_of
    from moldau.client.admin import transactions as questions

    by_id = arguments.transactional_id is not None
    if by_id == (arguments.partition is not None) or by_id == (arguments.start_offset is not None):
        raise CommandError("name a transactional id, or a --partition and the --start-offset of what hangs there")
    with cluster_admin(arguments) as admin:
        if by_id:
            # a misspelt name would create a new transactional id
            questions.describe_transaction(admin, arguments.transactional_id)
            questions.terminate_transaction(admin, arguments.transactional_id)
            what = arguments.transactional_id
        else:
            partition, *others = partitions_of(admin, [arguments.partition])
            if others:
                raise CommandError(f"name one partition, TOPIC:0, not {arguments.partition!r}")
            producer = questions.open_transaction_at(admin, partition, arguments.start_offset)
            if producer is None:
                raise CommandError(f"no transaction that is open on {partition} begins at {arguments.start_offset}")
            questions.abort_transaction(
                admin,
                partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=producer.coordinator_epoch,
            )
            what = str(partition)
    if arguments.json:
        print_json({"aborted": what})
    else:
        print(f"{what}: aborted")
    return 0


def find_hanging(arguments: argparse.Namespace) -> int:
    from moldau.cli.administration.offsets import partitions_of
    from moldau.client.admin import topics
    from moldau.client.admin import transactions as questions

    now_ms = _now_ms()
    with cluster_admin(arguments) as admin:
        partitions = partitions_of(admin, arguments.topic or list(topics.list_topics(admin)))
        found, failed = questions.find_hanging(
            admin, partitions, broker_id=arguments.broker, longer_than_ms=arguments.longer_than, now_ms=now_ms
        )
    rows: list[dict[str, object]] = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "start_offset": one.producer.start_offset,
            "producer_id": one.producer.producer_id,
            "producer_epoch": one.producer.producer_epoch,
            "silent_for_s": (now_ms - one.producer.last_timestamp_ms) // 1000,
            "error": None,
        }
        for one in found
    ]
    rows += [
        {"topic": partition.topic, "partition": partition.partition, "error": str(error)}
        for partition, error in failed.items()
    ]
    columns = ["topic", "partition", "start_offset", "producer_id", "producer_epoch", "silent_for_s"]
    columns += ["error"] if failed else []
    print_rows(rows, columns, as_json=arguments.json, empty="no transaction hangs")
    return 1 if failed else 0


def _now_ms() -> int:
    return int(time.time() * 1000)
