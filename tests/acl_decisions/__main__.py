"""Compares Moldau's decisions by ACLs with those of Apache Kafka's StandardAuthorizer.

python -m tests.acl_decisions [--decisions 1000000] [--seed 1] [--record]
"""

from __future__ import annotations

import argparse
import sys

from tests.acl_decisions.decided import (
    QUESTIONS,
    RECORDED,
    RECORDED_CLUSTERS,
    RECORDED_SEED,
    clusters,
    decide,
    recorded_line,
)
from tests.acl_decisions.oracle import ask

_SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="keep the answers that the tests compare with")
    options = parser.parse_args()
    if options.record:
        kept = list(clusters(RECORDED_SEED, RECORDED_CLUSTERS))
        lines = [recorded_line(of, answers) for of, answers in zip(kept, ask(kept), strict=True)]
        RECORDED.write_text("\n".join(lines) + "\n", encoding="ascii")
    asked = allowed = differing = 0
    count = -(-options.decisions // QUESTIONS)
    for of, answers in zip(clusters(options.seed, count), ask(clusters(options.seed, count)), strict=True):
        own = decide(of)
        asked += len(own)
        allowed += own.count("1")
        if len(answers) != len(own):
            raise SystemExit(f"Kafka answers {len(answers)} of {len(own)} questions")
        for one, kafka, moldau in zip(of.questions, answers, own, strict=True):
            if kafka != moldau:
                differing += 1
                if differing <= _SHOWN:
                    print(f"{one}\n  Kafka: {kafka}, Moldau: {moldau}\n  of {of.super_users}, {of.allow_without_acls}")
                    print(*(f"  {acl}" for acl in of.acls if acl.resource_type == one.resource_type), sep="\n")
    print(f"seed {options.seed}: {asked} decisions, {allowed} allowed, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
