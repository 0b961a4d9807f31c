"""`make verdicts [PAIRS=500]`: checks the registry's verdicts about random pairs of JSON Schemas with documents.

    python -m tests.verdicts [--pairs 500] [--seed N]

Each pair is checked in both directions. A verdict "compatible" is wrong if the reader rejects one of 200 documents that
the writer allows. For the other verdicts it prints how many such a document proves.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter

from moldau.products.registry.core.kinds.json_reading import problems
from moldau.products.registry.core.kinds.kind import WholeSchema
from tests.support.json_schema_pairs import annotated, counter_example, pair

DOCUMENTS = 200
TRIES = 2_000


def judge(seed: int, found: Counter[str]) -> None:
    rng = random.Random(seed)
    one, other = pair(rng)
    for reader, writer in ((one, other), (other, one)):
        is_compatible = not problems(WholeSchema(json.dumps(reader)), WholeSchema(json.dumps(writer)))
        document, count = counter_example(rng, reader, writer, DOCUMENTS, TRIES)
        found["documents"] += count
        if is_compatible and document:
            print(f"seed {seed}: called compatible, but the reader refuses {json.dumps(document[0])}")
            print(f"  reader {json.dumps(reader)}\n  writer {json.dumps(writer)}")
        found[f"{'compatible' if is_compatible else 'incompatible'}, {'refuted' if document else 'not refuted'}"] += 1
    changed = annotated(rng, one)
    if problems(WholeSchema(json.dumps(changed)), WholeSchema(json.dumps(one))):
        print(f"seed {seed}: a change of annotations is called incompatible: {json.dumps(one)}")
        found["annotations, incompatible"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--seed", type=int, help="the first one; without it, a fresh one")
    arguments = parser.parse_args()
    first = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"seeds {first} to {first + arguments.pairs - 1}", flush=True)
    found: Counter[str] = Counter()
    for seed in range(first, first + arguments.pairs):
        judge(seed, found)
    print(", ".join(f"{what}: {count}" for what, count in sorted(found.items())))
    return 1 if found["compatible, refuted"] or found["annotations, incompatible"] else 0


if __name__ == "__main__":
    sys.exit(main())
