"""Each transform gives what Apache Kafka's own gave for the corpus of `tests/transforms`, errors too."""

from __future__ import annotations

from itertools import zip_longest

from moldau.connect.transforming.named import PREDICATES, TRANSFORMS
from tests.transforms.comparing import CONFIG_ERROR, ERROR, own_answer, reason
from tests.transforms.corpus import cases
from tests.transforms.recorded import digests, recorded
from tests.transforms.settings import own

MEANT = 14


def test_the_corpus_gives_kafkas_answers() -> None:
    rows, differences, meant = recorded()["cases"], [], 0
    corpus = list(cases())
    assert [[case.type, case.config] for case in corpus] == [row[:2] for row in rows], "record the corpus again"
    for case, (_, _, kafka) in zip(corpus, rows, strict=True):
        answer = own_answer(case)
        ours = digests(answer)
        if ours == kafka:
            continue
        if isinstance(ours, str) or isinstance(kafka, str):
            places = [CONFIG_ERROR if ours == "error" else answer]
        else:
            places = [ERROR if one == "error" else one for one, theirs in zip_longest(ours, kafka) if one != theirs]
        for place in places:
            if reason(case, place) is None:
                differences.append((case.type, case.config, place, kafka))
            else:
                meant += 1
    assert differences == []
    assert meant == MEANT


def test_settings_are_kafkas() -> None:
    kafka = recorded()["settings"]
    ours = {name: own(kind.settings) for name, kind in TRANSFORMS.items()}
    ours |= {f"predicates.{name}": own(kind.settings) for name, kind in PREDICATES.items()}
    assert ours == kafka


def test_every_setting_is_documented() -> None:
    settings = [one for kind in (*TRANSFORMS.values(), *PREDICATES.values()) for one in kind.settings]
    assert [one.name for one in settings if not one.documentation.endswith(".")] == []
