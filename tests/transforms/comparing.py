"""Moldau's answers in the form of the Java program's, and the differences that are meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.connect.configuration import ConfigError
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.transforming.chain import chain_of
from tests.transforms.corpus import PACKAGE, Case
from tests.transforms.told import normal, told_record

ERROR = {"error": "data"}
CONFIG_ERROR = {"error": "configuration"}


def asked(case: Case) -> dict[str, Any]:
    return {
        "type": PACKAGE + case.type,
        "config": case.config,
        "records": [told_record(one) for one in case.records],
    }


def own_answer(case: Case) -> dict[str, Any]:
    """As the Java program answers, with an error by its class alone."""
    is_predicate = case.type.startswith("predicates.")
    prefix = "predicates.p." if is_predicate else "transforms.t."
    config = {prefix + name: text for name, text in case.config.items()} | {prefix + "type": PACKAGE + case.type}
    if is_predicate:
        config |= {"predicates": "p", "transforms": "t", "transforms.t.type": "Filter", "transforms.t.predicate": "p"}
    else:
        config |= {"transforms": "t"}
    try:
        chain = chain_of(config)
    except ConfigError:
        return CONFIG_ERROR
    if is_predicate:
        return {"answers": [chain.apply(one) is None for one in case.records]}
    answers = []
    for record in case.records:
        try:
            answers.append(normal(told_record(chain.apply(record))))
        except DataError:
            answers.append(ERROR)
    return {"answers": answers}


def java_answer(told: dict[str, Any]) -> dict[str, Any]:
    """An error by its class alone."""
    if "error" in told:
        return CONFIG_ERROR
    return {"answers": [ERROR if isinstance(one, dict) and "error" in one else normal(one) for one in told["answers"]]}


def differences(case: Case, java: dict[str, Any]) -> Iterator[tuple[int, Record | None, Any, Any]]:
    """The place of the record (-1: the configuration), the record, Java's answer and ours."""
    own = own_answer(case)
    if "error" in own or "error" in java:
        if own != java:
            yield -1, None, java, own
        return
    for place, (record, theirs, ours) in enumerate(zip(case.records, java["answers"], own["answers"], strict=True)):
        if theirs != ours:
            yield place, record, theirs, ours


def reason(case: Case, ours: Any) -> str | None:
    """Why a difference is meant; None: it is not."""
    if case.type in ("RegexRouter", "TimestampRouter") and ours == CONFIG_ERROR:
        return "A replacement or a date format that can never work is rejected with the configuration"
    if case.type.startswith("TimestampConverter") and ours == ERROR:
        return "Years from 1 to 9999, numbers of dates below 2^31, and no day of the week without a day of the month"
    return None
