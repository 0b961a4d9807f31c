"""Records the answers of Apache Kafka: python -m tests.converter_pairs (Java 17 and Maven are needed)."""

from __future__ import annotations

from tests.converter_pairs.corpus import cases
from tests.converter_pairs.kafka import ask, record

if __name__ == "__main__":
    ASKED = list(cases())
    record({case["name"]: found for case, found in zip(ASKED, ask(ASKED), strict=True)})
    print(f"{len(ASKED)} answers recorded")
