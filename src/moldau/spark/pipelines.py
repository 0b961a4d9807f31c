"""Functions that a pipeline module for `moldau pipeline` needs besides those of `pyspark.pipelines`:

    from moldau.spark.pipelines import pipeline, source
    from pyspark import pipelines as dp

    pipeline("shop", bootstrap_servers="127.0.0.1:9092")
    source("orders", topic="orders", format="json", schema="user string, amount double")

    @dp.temporary_view
    def big():
        return spark.readStream.table("orders").where("amount > 100")

The keys are those of a pipeline file in YAML.
"""

from __future__ import annotations

import sys

from moldau.spark.definitions.definitions import Declared, declare


def pipeline(name: str, *, bootstrap_servers: str | None = None, **keys: object) -> None:
    """The pipeline itself: `cluster`, `checkpoint`, `group`, `tests` and so on, as in a pipeline file."""
    servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
    declare(None, _here({"name": name, **servers, **keys}))


def source(name: str, **keys: object) -> None:
    """A source, which flows read by its name: `topic`, `format`, `schema` and so on, as in a pipeline file. For `as`, a
    Python keyword, write `as_`."""
    declare(name, _here({key.removesuffix("_"): value for key, value in keys.items()}))


def _here(keys: dict[str, object]) -> Declared:
    return Declared(keys, sys._getframe(2).f_lineno)
