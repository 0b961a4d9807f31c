"""`moldau partitions describe|add|elect|reassign|reassignments|trim`."""

from __future__ import annotations

import argparse

from moldau.cli.administration.moves import add_move_arguments, move, replicas_of_all, see_through
from moldau.cli.administration.offsets import partitions_of
from moldau.cli.arguments import Subparsers, int32, int64
from moldau.cli.cluster import add_cluster_arguments, add_dry_run, cluster_admin, is_view_new, known_topic
from moldau.cli.output import CommandError, print_rows
from moldau.types import counted


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("partitions", help="see replicas, add partitions, elect leaders, trim records")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    describe = verbs.add_parser(
        "describe",
        help="show leaders, replicas and which of them are in sync",
        examples=("moldau partitions describe orders", "moldau partitions describe --under-replicated"),
    )
    describe.add_argument("topic", nargs="*", default=[], help="without it, all topics")
    describe.add_argument(
        "--under-replicated", action="store_true", help="only partitions with a replica out of sync or without a leader"
    )
    add_cluster_arguments(describe, describe_partitions)

    add = verbs.add_parser(
        "add", help="add partitions to a topic", examples=("moldau partitions add orders 6    # from 3 to 6, say",)
    )
    add.add_argument("topic")
    add.add_argument("count", type=int32, help="the number of partitions after the change")
    add_dry_run(add)
    add_cluster_arguments(add, add_partitions, rights={"topic": "alter"})

    elect = verbs.add_parser(
        "elect",
        help="make the preferred replicas the leaders",
        examples=("moldau partitions elect", "moldau partitions elect orders:0,1"),
    )
    elect.add_argument("topic", nargs="*", default=[], metavar="TOPIC[:0,1]", help="without it, all partitions")
    elect.add_argument("--unclean", action="store_true", help="elect any living replica; records may be lost")
    add_cluster_arguments(elect, elect_leaders, rights={"cluster": "alter"})

    reassign = verbs.add_parser(
        "reassign",
        help="place the replicas of partitions on other brokers, or have more or fewer of them",
        description="Shows where the replicas would go; with --execute they move, and the command waits. Clients are "
        "served throughout. A replica stays where it may; the others go to brokers that hold few.",
        examples=(
            "moldau partitions reassign orders --replication-factor 3",
            "moldau partitions reassign orders:0,1 --brokers 1,2,3 --execute --throttle 50000000",
        ),
    )
    reassign.add_argument("topic", nargs="+", metavar="TOPIC[:0,1]")
    reassign.add_argument("--brokers", type=broker_ids, metavar="1,2,3", help="without it, all that serve")
    reassign.add_argument("--replication-factor", type=int32, metavar="N", help="without it, as many replicas as now")
    add_move_arguments(reassign)
    add_cluster_arguments(reassign, reassign_partitions, json=False, rights={"cluster": "alter"})

    moving = verbs.add_parser(
        "reassignments",
        help="list partitions whose replicas are being moved",
        examples=("moldau partitions reassignments",),
    )
    add_cluster_arguments(moving, list_reassignments)

    trim = verbs.add_parser(
        "trim",
        help="delete the records before an offset",
        examples=("moldau partitions trim orders:0 --before 1000", "moldau partitions trim orders --before -1"),
    )
    trim.add_argument("topic", nargs="+", metavar="TOPIC[:0,1]")
    trim.add_argument("--before", type=int64, required=True, metavar="OFFSET", help="-1: all that are there now")
    add_cluster_arguments(trim, trim_partitions, rights={"topic": "delete"})


def describe_partitions(arguments: argparse.Namespace) -> int:
    from moldau.cli.cluster import matching_names
    from moldau.client.admin.topics import describe_topics, list_topics

    with cluster_admin(arguments) as admin:
        known = list(list_topics(admin))
        names = matching_names(arguments.topic, known, is_regex=False, what="topic") if arguments.topic else known
        topics = describe_topics(admin, names)
    rows: list[dict[str, object]] = [
        {
            "topic": name,
            "partition": row.index,
            "leader": None if row.leader_id < 0 else row.leader_id,
            "replicas": list(row.replicas),
            "in_sync": list(row.isr),
            "eligible": list(row.elr or ()),
        }
        for name, topic in topics.items()
        for row in topic.partitions
        if not (arguments.under_replicated and row.is_whole)
    ]
    is_new = is_view_new(arguments)
    columns = ("topic", "partition", "leader", "replicas", "in_sync", "eligible")
    when = "" if is_new else ", as far as this broker knows"
    empty = f"every partition has a leader, and every replica is in sync{when}"
    print_rows(rows, columns, as_json=arguments.json, empty=empty if names else "there is no topic")
    return 0 if is_new or not arguments.under_replicated else 1


def add_partitions(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.topics import create_partitions

    with cluster_admin(arguments) as admin, known_topic(admin, arguments.topic):
        create_partitions(admin, arguments.topic, arguments.count, validate_only=arguments.dry_run)
    partitions = counted(arguments.count, "partition")
    result = f"would have {partitions}" if arguments.dry_run else partitions
    if arguments.json:
        print_rows([{"topic": arguments.topic, "result": result}], ["topic", "result"], as_json=True)
    else:
        print(f"{arguments.topic}: {result}")
    return 0


def elect_leaders(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import partitions as questions

    with cluster_admin(arguments) as admin:
        chosen = partitions_of(admin, arguments.topic) if arguments.topic else None
        if chosen is None and arguments.unclean:
            raise CommandError("--unclean loses records: name the topics")
        kind = questions.UNCLEAN if arguments.unclean else questions.PREFERRED
        results = questions.elect_leaders(admin, chosen, kind)
    rows: list[dict[str, object]] = []
    all_fine = True
    for partition, error in results.items():
        result = "elected"
        if error is not None:
            is_fine = error.name == "ELECTION_NOT_NEEDED"
            all_fine = all_fine and is_fine
            result = "leads already" if is_fine else str(error)
        rows.append({"topic": partition.topic, "partition": partition.partition, "result": result})
    print_rows(rows, ["topic", "partition", "result"], as_json=arguments.json, empty="all preferred replicas lead")
    return 0 if all_fine else 1


def reassign_partitions(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import partitions as questions
    from moldau.client.admin.reassignments import placed_on

    factor: int | None = arguments.replication_factor
    if factor is not None and factor < 1:
        raise CommandError("a partition has at least one replica")
    with cluster_admin(arguments) as admin:
        chosen = partitions_of(admin, arguments.topic)
        current = replicas_of_all(admin)
        serving = {row.node_id: row.rack for row in admin.cluster().brokers}
        absent = [broker for broker in arguments.brokers or () if broker not in serving]
        if absent:
            raise CommandError(f"broker {absent[0]} does not serve; those that do: {', '.join(map(str, serving))}")
        allowed = {broker: serving[broker] for broker in arguments.brokers or serving}
        try:
            wanted = placed_on(current, chosen, allowed, factor)
        except ValueError as error:
            raise CommandError(str(error)) from error
        found = questions.list_reassignments(admin)
        going = {one: found[one] for one in chosen if one in found and one not in wanted}
        see_through(admin, going, arguments)  # finish the moves of an interrupted command first
        if wanted or arguments.execute or not going:
            move(admin, current, wanted, arguments, empty="every replica is where it shall be")
    return 0


def broker_ids(text: str) -> list[int]:
    """Parses `1,2,3`."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"write numbers of brokers, such as 1,2,3, not {text!r}") from None


def list_reassignments(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import partitions as questions

    with cluster_admin(arguments) as admin:
        found = questions.list_reassignments(admin)
    rows: list[dict[str, object]] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "adding": list(adding),
            "removing": list(removing),
        }
        for partition, (replicas, adding, removing) in found.items()
    ]
    columns = ["topic", "partition", "replicas", "adding", "removing"]
    print_rows(rows, columns, as_json=arguments.json, empty="no partition is being moved")
    return 0


def trim_partitions(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import partitions as questions
    from moldau.errors import KafkaError

    with cluster_admin(arguments) as admin:
        chosen = partitions_of(admin, arguments.topic)
        results = questions.delete_records(admin, dict.fromkeys(chosen, arguments.before))
    rows: list[dict[str, object]] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start_offset": None if isinstance(result, KafkaError) else result,
            "error": str(result) if isinstance(result, KafkaError) else None,
        }
        for partition, result in results.items()
    ]
    print_rows(rows, ["topic", "partition", "start_offset", "error"], as_json=arguments.json)
    return 1 if any(row["error"] for row in rows) else 0
