"""Compares Moldau's transforms with Apache Kafka's (Java is needed): `python -m tests.transforms [--record]`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.transforms.comparing import asked, differences, java_answer, reason
from tests.transforms.corpus import PACKAGE, cases
from tests.transforms.oracle import ask
from tests.transforms.recorded import record
from tests.transforms.settings import described, kafka_names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write recorded.json")
    is_recorded = parser.parse_args().record
    corpus = list(cases())
    answers = [java_answer(one) for one in ask([asked(case) for case in corpus])]
    meant, wrong = Counter[str](), 0
    for case, answer in zip(corpus, answers, strict=True):
        for place, given, theirs, ours in differences(case, answer):
            why = reason(case, ours)
            if why is not None:
                meant[why] += 1
                continue
            wrong += 1
            print(f"{case.type} {case.config} record {place} {given}\n  Kafka: {theirs}\n  Moldau: {ours}")
    print(f"{len(corpus)} configurations, {sum(len(case.records) for case in corpus)} records, {wrong} differences")
    for why, count in meant.items():
        print(f"  meant: {count} x {why}")
    if is_recorded:
        names = kafka_names()
        told = ask([{"describe": PACKAGE + name} for name in names])
        record(corpus, answers, {name: described(one) for name, one in zip(names, told, strict=True)})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
