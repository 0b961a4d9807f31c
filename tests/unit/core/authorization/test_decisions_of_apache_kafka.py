"""20,000 random decisions by ACLs equal those of Apache Kafka 4.4's authorizer; `make acl-decisions` asks it again."""

from __future__ import annotations

from tests.acl_decisions.decided import RECORDED, RECORDED_CLUSTERS, RECORDED_SEED, clusters, decide, recorded_line


def test_decisions_are_those_of_apache_kafka() -> None:
    recorded = RECORDED.read_text(encoding="ascii").splitlines()
    assert len(recorded) == RECORDED_CLUSTERS
    assert [recorded_line(of, decide(of)) for of in clusters(RECORDED_SEED, RECORDED_CLUSTERS)] == recorded
