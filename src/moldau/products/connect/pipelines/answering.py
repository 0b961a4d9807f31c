"""Answers to questions about the class `pipeline`, in the shapes of `moldau.connect.plugins`.

One question more is answered here:

    {"do": "offsets", "config": {...}, "servers": "127.0.0.1:9092" | null}
        -> {"offsets": [{"partition": {"kafka_topic", "kafka_partition", "query"}, "offset": {"kafka_offset"}}, ...]}
           Where a run would go on in each topic. `servers`: the cluster of a pipeline that names none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau import __version__
from moldau.client.protocol.access import ClusterAccess
from moldau.connect.configuration import Checked, ConfigError, Kind, Setting, check, unknown
from moldau.connect.contract.shared_settings import CLASS
from moldau.connect.plugins.answering import Answer
from moldau.connect.plugins.validating import definition, report
from moldau.errors import MoldauError
from moldau.products.connect.pipelines.configuration import FILE, PREFIXES, SETTINGS, spec_of
from moldau.products.connect.running.programs import PIPELINE

KIND: Final = "sink"
"""A pipeline reads topics, and its place is offsets of topics, as that of a sink."""
LISTED: Final[Answer] = {"class": PIPELINE, "type": KIND, "version": __version__}
_ANY: Final = ClusterAccess("127.0.0.1:9092")
"""A file is read as if it named this cluster, which is not asked."""


def describe(_request: Mapping[str, Any]) -> Answer:
    return {
        "class": PIPELINE,
        "types": [KIND],
        "version": __version__,
        "settings": [definition(one) for one in SETTINGS],
    }


def validate(request: Mapping[str, Any]) -> Answer:
    config = request["config"]
    texts = {name: value for name, value in config.items() if value is not None}
    found = check(SETTINGS, config)
    errors: dict[str, tuple[str, ...]] = {}
    if not any(one.errors for one in found if one.setting.name == FILE):
        try:
            spec_of(texts, _ANY)
        except ConfigError as error:
            errors = error.errors
    found = [
        Checked(one.setting, one.value, one.recommended, (*one.errors, *errors.get(one.setting.name, ())))
        for one in found
    ]
    given = {name: value for name, value in config.items() if not name.startswith(PREFIXES)}
    found += [
        Checked(Setting(name, Kind.STRING, None), config[name], errors=(sentence,))
        for name, sentence in unknown(SETTINGS, given).items()
    ]
    return report(PIPELINE, found)


def split(request: Mapping[str, Any]) -> Answer:
    return {"configs": [dict(request["config"])], "type": KIND}


def offsets(request: Mapping[str, Any]) -> Answer:
    from moldau.products.pipelines.looking.standing import standing_of

    servers = request.get("servers")
    spec = spec_of(request["config"], None if servers is None else ClusterAccess(servers))
    try:
        _, queries = standing_of(spec)
    except MoldauError as error:
        raise ConfigError({FILE: (str(error),)}) from error
    trouble = next((one.trouble for one in queries if one.trouble is not None), None)
    if trouble is not None:
        raise ConfigError({FILE: (trouble,)})
    found = [
        {
            "partition": {"kafka_topic": one.topic, "kafka_partition": one.partition, "query": query.name},
            "offset": {"kafka_offset": offset},
        }
        for query in queries
        for one, offset in sorted(query.starts.items())
    ]
    return {"offsets": found}


_ANSWERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Answer]]] = {
    "describe": describe,
    "validate": validate,
    "split": split,
    "offsets": offsets,
}


def answer(request: Mapping[str, Any]) -> Answer | None:
    """None: the question is about another class."""
    named = request["class"] if "class" in request else request.get("config", {}).get(CLASS)
    function = _ANSWERS.get(str(request.get("do")))
    if named != PIPELINE or function is None:
        return None
    try:
        return function(request)
    except ConfigError as error:
        return {"errors": {name: list(sentences) for name, sentences in error.errors.items()}}
