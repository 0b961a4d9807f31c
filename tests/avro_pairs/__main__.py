"""Compares Moldau with Apache Avro for Java on random pairs of schemas: how each reads a record, how Java reads
Moldau's output, and which defaults a schema may have.

python -m tests.avro_pairs [--pairs 2000] [--seed 1] [--record]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

from tests.avro_pairs.defaults import DEFAULTS, is_kept
from tests.avro_pairs.generate import Generator, Pair
from tests.avro_pairs.oracle import ask
from tests.avro_pairs.recorded import is_same, record
from tests.avro_pairs.told import Written, rows, written

SHOWN = 10
KEPT_PAIRS = 150


def read_differences(pairs: list[Pair], answers: list[dict[str, Any]], outcomes: Counter[str]) -> list[str]:
    found, left = [], iter(answers)
    for pair in pairs:
        for asked, own in zip(pair.asked(), rows(*pair), strict=True):
            java = next(left)
            outcomes["rows" if "value" in own else "dead letters"] += 1
            if not is_same(java, own):
                found.append(_shown(asked, java, own))
    return found


def write_differences(pairs: list[Pair], generators: list[Generator]) -> tuple[list[str], int]:
    """Reads values of the reader's schema and writes them again, with some fields left to defaults. Also gives the
    number of rows."""
    lots: list[tuple[Pair, Written]] = []
    for pair, generator in zip(pairs, generators, strict=True):
        lots.append((pair, written(pair.reader, generator.values(pair.reader), generator.left_out(pair.reader))))
    left = iter(ask([asked for pair, lot in lots for asked in lot.asked(pair.reader)]))
    found = []
    for pair, lot in lots:
        whole, shorter = ([next(left) for _ in lot.values] for _ in range(2))
        for java, other, told in zip(whole, shorter, lot.told, strict=True):
            is_given = "value" not in java or {name: java["value"][name] for name in told} == told
            if java != other or not is_given:
                found.append(_shown(pair.reader, [java, other], told))
    return found, sum(len(lot.told) for _, lot in lots)


def default_differences() -> list[str]:
    """Compares the table, and the registry."""
    answers = ask([{"schema": json.dumps(one.schema())} for one in DEFAULTS])
    return [
        _shown(one.schema(), java, one.is_taken)
        for one, java in zip(DEFAULTS, answers, strict=True)
        if not ("value" in java) == one.is_taken == is_kept(one)
    ]


def _shown(asked: object, java: object, own: object) -> str:
    return f"{json.dumps(asked)}\n  Java:   {json.dumps(java)}\n  Moldau: {json.dumps(own)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="keep some of the answers for the tests")
    options = parser.parse_args()
    generators = [Generator(f"{options.seed}/{place}") for place in range(options.pairs)]
    pairs = [generator.pair() for generator in generators]
    answers = ask([asked for pair in pairs for asked in pair.asked()])
    outcomes: Counter[str] = Counter()
    of_reading = read_differences(pairs, answers, outcomes)
    of_writing, count = write_differences(pairs, generators)
    of_defaults = default_differences()
    if options.record:
        record(pairs[:KEPT_PAIRS], answers)
    print(*[*of_reading, *of_writing, *of_defaults][:SHOWN], sep="\n")
    print(
        f"seed {options.seed}, {len(pairs)} pairs: {dict(outcomes)}, {len(of_reading)} differ; "
        f"{count} rows written, {len(of_writing)} differ; {len(DEFAULTS)} defaults, {len(of_defaults)} differ"
    )
    return 1 if of_reading or of_writing or of_defaults else 0


if __name__ == "__main__":
    sys.exit(main())
