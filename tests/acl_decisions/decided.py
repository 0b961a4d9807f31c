"""Decisions by Moldau, and the recorded decisions of Apache Kafka."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from moldau.core.authorization.authorizer import StandardAuthorizer
from moldau.types import Uuid
from tests.acl_decisions.generate import Cluster, cluster

QUESTIONS = 500
"""The number of questions for each cluster."""
RECORDED_SEED = 50
RECORDED_CLUSTERS = 40
RECORDED = Path(__file__).with_name("recorded.txt")
"""A line for each cluster: a digest of the questions, and the answers as one hexadecimal number."""


def clusters(seed: int, count: int) -> Iterable[Cluster]:
    return (cluster(f"{seed}/{place}", QUESTIONS) for place in range(count))


def decide(of: Cluster) -> str:
    """A digit for each question: 1 if allowed. Each question is asked twice; the second answer comes from the cache."""
    authorizer = StandardAuthorizer(of.super_users, allow_without_acls=of.allow_without_acls)
    authorizer.change({Uuid(place.to_bytes(16, "big")): acl for place, acl in enumerate(of.acls)})
    answers = []
    for one in of.questions:
        asked = (one.principal, one.host, one.operation, one.resource_type)
        for _ in range(2):
            allowed = authorizer.authorize_any(*asked) if one.name is None else authorizer.authorize(*asked, one.name)
            answers.append("1" if allowed else "0")
    if answers[::2] != answers[1::2]:
        raise AssertionError("a cached decision is another one")
    return "".join(answers[::2])


def recorded_line(of: Cluster, answers: str) -> str:
    digest = hashlib.sha256("\n".join(of.lines()).encode()).hexdigest()[:16]
    return f"{digest} {int(answers, 2):x}"
