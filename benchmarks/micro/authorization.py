"""The cost of a decision by ACLs: the first for a resource, a cached one, and the first after a changed ACL.

    python -m benchmarks.micro.authorization [--acls 10000]

Half of the ACLs name one topic, a quarter a prefix, a quarter a group; each has one of 1,000 principals.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import uuid

from moldau.core.authorization.authorizer import StandardAuthorizer
from moldau.types import Uuid
from moldau.wire.protocol.acls import Acl, AclOperation, AclPatternType, AclPermission, AclResourceType

PRINCIPALS = 1_000
QUESTIONS = 5_000
REPEATS = 20


def acl(number: int) -> Acl:
    kinds = (
        (AclResourceType.TOPIC, f"topic-{number}", AclPatternType.LITERAL),
        (AclResourceType.TOPIC, f"team-{number}-", AclPatternType.PREFIXED),
        (AclResourceType.TOPIC, f"topic-{number - 2}", AclPatternType.LITERAL),
        (AclResourceType.GROUP, f"group-{number}", AclPatternType.LITERAL),
    )
    resource_type, name, pattern = kinds[number % len(kinds)]
    principal = f"User:user-{number % PRINCIPALS}"
    return Acl(resource_type, name, pattern, principal, "*", AclOperation.READ, AclPermission.ALLOW)


def decide(authorizer: StandardAuthorizer, questions: list[tuple[str, str]]) -> list[float]:
    """The seconds of each decision."""
    taken = []
    for principal, name in questions:
        begin = time.perf_counter()
        authorizer.authorize(principal, "127.0.0.1", AclOperation.READ, AclResourceType.TOPIC, name)
        taken.append(time.perf_counter() - begin)
    return taken


def measure(acls: int) -> dict[str, float]:
    authorizer = StandardAuthorizer()
    authorizer.change({Uuid(uuid.uuid4().bytes): acl(number) for number in range(acls)})
    questions = [(f"User:user-{number % PRINCIPALS}", f"topic-{number % acls}") for number in range(QUESTIONS)]
    gc.collect()
    first = decide(authorizer, questions)
    begin = time.perf_counter()
    for _ in range(REPEATS):
        for principal, name in questions:
            authorizer.authorize(principal, "127.0.0.1", AclOperation.READ, AclResourceType.TOPIC, name)
    kept = (time.perf_counter() - begin) / REPEATS / QUESTIONS
    changed = Uuid(uuid.uuid4().bytes)
    begin = time.perf_counter()
    authorizer.change({changed: acl(acls)})
    change = time.perf_counter() - begin
    return {
        "first_us": statistics.median(first) * 1e6,
        "first_p99_us": statistics.quantiles(first, n=100)[98] * 1e6,
        "cached_us": kept * 1e6,
        "change_us": change * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro.authorization", description=__doc__)
    parser.add_argument("--acls", type=int, default=10_000)
    print(json.dumps(measure(parser.parse_args().acls), indent=2))


if __name__ == "__main__":
    main()
