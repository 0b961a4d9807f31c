"""Compares what Moldau and Apache Avro for Java read of random records; --record FILE keeps a part for the tests.

python -m tests.avro_pairs [--pairs 2000] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

from tests.avro_pairs.generate import Generator, Pair
from tests.avro_pairs.oracle import ask
from tests.avro_pairs.told import rows

SHOWN = 10


def is_same(java: dict[str, Any], own: dict[str, Any]) -> bool:
    """A value that a column does not have ("!") is a dead letter here, as an error is."""
    is_row = "value" in java and "! " not in json.dumps(java)
    return java == own if is_row else "error" in own


def differences(pairs: list[Pair], answers: list[dict[str, Any]], outcomes: Counter[str]) -> list[str]:
    found, left = [], iter(answers)
    for pair in pairs:
        try:
            own_rows = rows(pair.writer, pair.reader, pair.values)
        except Exception as error:
            own_rows = [{"fault": repr(error)} for _ in pair.values]
        for asked, own in zip(pair.asked(), own_rows, strict=True):
            java = next(left)
            outcomes["rows" if "value" in own else "dead letters"] += 1
            if not is_same(java, own):
                found.append("\n  ".join([json.dumps(asked), f"Java:   {json.dumps(java)}", f"Moldau: {json.dumps(own)}"]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    pairs = [Generator(f"{options.seed}/{place}").pair() for place in range(options.pairs)]
    answers = ask([asked for pair in pairs for asked in pair.asked()])
    outcomes: Counter[str] = Counter()
    found = differences(pairs, answers, outcomes)
    print(*found[:SHOWN], sep="\n")
    print(f"seed {options.seed}: {len(pairs)} pairs, {dict(outcomes)}, {len(found)} records differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
