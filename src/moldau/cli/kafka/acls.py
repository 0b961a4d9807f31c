"""`kafka-acls`: adds, removes and lists ACLs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import astuple

from moldau.cli.kafka.connection import open_admin
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    UsageError,
    bootstrap_server,
    check_excluded,
    command_config,
)
from moldau.cli.output import printable
from moldau.client.admin import acls as questions
from moldau.client.admin.acls import CLUSTER, Resource
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import as_java_says
from moldau.errors import KafkaError
from moldau.wire.protocol.acls import (
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

SUMMARY = "This tool helps to manage acls on kafka."

OPTIONS = (
    bootstrap_server(is_required=False),
    Option("bootstrap-controller", "The controllers to connect to.", "controller to connect to"),
    command_config(),
    Option("add", "Add ACLs."),
    Option("remove", "Remove ACLs."),
    Option("list", "List the ACLs of the resources that are named, or all."),
    Option("topic", "A topic; '*' is every topic. May be repeated.", "topic"),
    Option("cluster", "The cluster."),
    Option("group", "A group; '*' is every group. May be repeated.", "group"),
    Option("transactional-id", "A transactional id; '*' is every one. May be repeated.", "transactional-id"),
    Option("idempotent", "With --producer: also the right to write idempotently, as old brokers want it."),
    Option("delegation-token", "A delegation token; '*' is every one. May be repeated.", "delegation-token"),
    Option("user-principal", "A user as a resource: rights to make tokens for it. May be repeated.", "user-principal"),
    Option(
        "resource-pattern-type",
        "How names are meant: literal or prefixed; to list and remove also any (either, of this very name) and match "
        "(all that concern the resource).",
        "ANY|MATCH|LITERAL|PREFIXED",
        default="LITERAL",
    ),
    Option("operation", "An operation; may be repeated.", "String", default="All"),
    Option("allow-principal", "Who is allowed, as principalType:name; may be repeated.", "allow-principal"),
    Option("deny-principal", "Who is denied, as principalType:name; may be repeated.", "deny-principal"),
    Option(
        "principal", "List: only the ACLs of this principal; may be repeated.", "principal", is_argument_optional=True
    ),
    Option("allow-host", "From where --allow-principal is allowed; every host by default.", "allow-host"),
    Option("deny-host", "From where --deny-principal is denied; every host by default.", "deny-host"),
    Option("producer", "The rights of a producer: Write, Describe and Create on topics."),
    Option("consumer", "The rights of a consumer: Read and Describe on topics, Read on groups."),
    Option("force", "Ask nothing before removing."),
)

_RESOURCES = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional-id": AclResourceType.TRANSACTIONAL_ID,
    "delegation-token": AclResourceType.DELEGATION_TOKEN,
    "user-principal": AclResourceType.USER,
}
_NO_RESOURCE = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token "
    "<Delegation Token ID>"
)


class Entry(msgspec.Struct, frozen=True, order=True):
    """An ACL without its resource."""

    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        operation, permission = AclOperation(self.operation).name, AclPermission(self.permission).name
        return f"(principal={self.principal}, host={self.host}, operation={operation}, permissionType={permission})"


Entries = Mapping[Resource, tuple[Entry, ...]]


def run(arguments: Arguments) -> int:
    _check(arguments)
    act: Callable[[Arguments, ClusterAdmin], None]
    act = _add if arguments.has("add") else _remove if arguments.has("remove") else _list
    try:
        with open_admin(arguments) as admin:
            act(arguments, admin)
    except KafkaError as error:
        print(f"Error while executing ACL command: {as_java_says(error)}")
        return 1
    except ArgumentError as error:
        print(f"Error while executing ACL command: {error}")
        return 1
    return 0


def _check(arguments: Arguments) -> None:
    """Raises UsageError."""
    if arguments.has("bootstrap-server") and arguments.has("bootstrap-controller"):
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if not arguments.has("bootstrap-server", "bootstrap-controller"):
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(arguments.has(name) for name in ("add", "remove", "list")) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    check_excluded(
        arguments, "list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"
    )
    check_excluded(arguments, "producer", "operation", "deny-principal", "deny-host")
    check_excluded(arguments, "consumer", "operation", "deny-principal", "deny-host")
    if arguments.has("principal") and not arguments.has("list"):
        raise UsageError("The --principal option is only available if --list is set")
    if arguments.has("producer") and not arguments.has("topic"):
        raise UsageError("With --producer you must specify a --topic")
    if arguments.has("idempotent") and not arguments.has("producer"):
        raise UsageError("The --idempotent option is only available if --producer is set")
    is_lacking = not (arguments.has("topic") and arguments.has("group"))
    is_other = not arguments.has("producer") and arguments.has("cluster", "transactional-id")
    if arguments.has("consumer") and (is_lacking or is_other):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


# -- requested ACLs


def _pattern_type(arguments: Arguments) -> AclPatternType:
    text = arguments.text("resource-pattern-type") or ""
    try:
        found = AclPatternType[text.upper()]
    except KeyError:
        found = AclPatternType.UNKNOWN
    if found is AclPatternType.UNKNOWN:
        raise ArgumentError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    return found


def _resources(arguments: Arguments, *, is_needed: bool) -> list[Resource]:
    kind = _pattern_type(arguments)
    found = [
        Resource(int(resource_type), name.strip(), int(kind))
        for option, resource_type in _RESOURCES.items()
        for name in arguments.texts(option)
    ]
    if kind is AclPatternType.LITERAL and arguments.has("cluster", "idempotent"):
        found.append(CLUSTER)
    if not found and is_needed:
        raise UsageError(_NO_RESOURCE)
    return list(dict.fromkeys(found))


def _principals(arguments: Arguments, option: str) -> list[str]:
    found = [text.strip() for text in arguments.texts(option)]
    for principal in found:
        if ":" not in principal:
            raise ArgumentError(f"expected a string in format principalType:principalName but got {principal}")
    return list(dict.fromkeys(found))


def _hosts(arguments: Arguments, option: str) -> list[str]:
    return [text.strip() for text in arguments.texts(option)] or [WILDCARD]


def _entries(arguments: Arguments, operations: Iterable[AclOperation]) -> tuple[Entry, ...]:
    sides = (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY))
    found = {
        Entry(principal, host, int(operation), int(permission)): None
        for side, permission in sides
        for principal in _principals(arguments, f"{side}-principal")
        for operation in operations
        for host in _hosts(arguments, f"{side}-host")
    }
    return tuple(sorted(found))


def _wanted(arguments: Arguments) -> Entries:
    """The named resources, each with the requested ACLs; no ACLs without a principal."""
    resources = _resources(arguments, is_needed=True)
    found: dict[Resource, tuple[Entry, ...]] = {}
    if not arguments.has("producer", "consumer"):
        operations = tuple(_operation(text.strip()) for text in arguments.texts("operation") or ["All"])
        found = dict.fromkeys(resources, _entries(arguments, operations))
    if arguments.has("producer"):
        needs = questions.producer_needs(resources, is_idempotent=arguments.has("idempotent"))
        found |= {resource: _entries(arguments, operations) for resource, operations in needs.items()}
    if arguments.has("consumer"):
        for resource, needed in questions.consumer_needs(resources).items():
            both = (*found.get(resource, ()), *_entries(arguments, needed))
            found[resource] = tuple(sorted(dict.fromkeys(both)))
    for resource, entries in found.items():
        _check_operations(AclResourceType(resource.resource_type), entries)
    return dict(sorted(found.items()))


def _operation(text: str) -> AclOperation:
    """Parses an operation such as `IdempotentWrite` in any case; UNKNOWN for any other text."""
    for operation in AclOperation:
        if text.lower() == operation.name.lower().replace("_", ""):
            return operation
    return AclOperation.UNKNOWN


def _check_operations(kind: AclResourceType, entries: Iterable[Entry]) -> None:
    valid = (*OPERATIONS_OF[kind], AclOperation.ALL)
    if any(entry.operation not in valid for entry in entries):
        names = ", ".join(operation.name for operation in valid)
        raise UsageError(f"ResourceType {kind.name} only supports operations [{names}]")


# -- actions


def _add(arguments: Arguments, admin: ClusterAdmin) -> None:
    kind = _pattern_type(arguments)
    if kind not in (AclPatternType.LITERAL, AclPatternType.PREFIXED):
        raise UsageError(f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls.")
    wanted = _wanted(arguments)
    if not all(wanted.values()):
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    for resource, entries in wanted.items():
        there = questions.describe_acls(admin, _filter(resource))
        new = []
        for entry in entries:
            if _acl(resource, entry) in there:
                print(f"Acl (pattern={_shown(resource)}, entry={entry}) already exists.")
            else:
                new.append(entry)
        if new:
            print(f"Adding ACLs for resource `{_shown(resource)}`: \n {_listed(new)}\n", flush=True)
            questions.create_acls(admin, [_acl(resource, entry) for entry in new])


def _remove(arguments: Arguments, admin: ClusterAdmin) -> None:
    for resource, entries in _wanted(arguments).items():
        shown = _shown(resource)
        if not entries:
            if _is_sure(arguments, f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"):
                questions.delete_acls(admin, [_filter(resource)])
            continue
        question = (
            f"Are you sure you want to remove ACLs: \n {_listed(entries)}\n from resource filter `{shown}`? (y/n)"
        )
        if _is_sure(arguments, question):
            questions.delete_acls(
                admin,
                [AclFilter(*astuple(resource), *astuple(entry)) for entry in entries],
            )


def _is_sure(arguments: Arguments, question: str) -> bool:
    if arguments.has("force"):
        return True
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


def _list(arguments: Arguments, admin: ClusterAdmin) -> None:
    principals = _principals(arguments, "principal")
    resources = _resources(arguments, is_needed=False)
    filters = [_filter(resource) for resource in resources] or [AclFilter()]
    found: dict[Resource, dict[Entry, None]] = {}
    for wanted in filters:
        for acl in questions.describe_acls(admin, wanted):
            resource = Resource(acl.resource_type, acl.name, acl.pattern_type)
            entry = Entry(acl.principal, acl.host, acl.operation, acl.permission)
            found.setdefault(resource, {})[entry] = None
    if not principals:
        _print_current({resource: tuple(entries) for resource, entries in found.items()})
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print_current(
            {
                resource: tuple(entry for entry in entries if entry.principal == principal)
                for resource, entries in found.items()
            }
        )


def _print_current(found: Entries) -> None:
    for resource, entries in sorted(found.items()):
        if entries:
            print(f"Current ACLs for resource `{_shown(resource)}`:\n{_listed(sorted(entries))}\n")


def _listed(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{printable(str(entry))}" for entry in entries)


def _shown(resource: Resource) -> str:
    kind, pattern = AclResourceType(resource.resource_type).name, AclPatternType(resource.pattern_type).name
    return f"ResourcePattern(resourceType={kind}, name={printable(resource.name)}, patternType={pattern})"


def _filter(resource: Resource) -> AclFilter:
    return AclFilter(*astuple(resource))


def _acl(resource: Resource, entry: Entry) -> Acl:
    return Acl(*astuple(resource), *astuple(entry))
