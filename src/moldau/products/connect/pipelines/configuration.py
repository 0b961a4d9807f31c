"""The settings of a pipeline as a connector, and the pipeline that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.client.protocol.access import ClusterAccess
from moldau.connect.configuration import ConfigError, Importance, Kind, Setting, wrong
from moldau.connect.contract import shared_settings
from moldau.connect.contract.bounds import MEMORY
from moldau.extras import MissingExtraError, require_extra

if TYPE_CHECKING:
    from moldau.products.pipelines.spec.spec import PipelineSpec

FILE: Final = "pipeline.file"
PARAMETER: Final = "pipeline.parameter."
SPARK: Final = "spark."
PREFIXES: Final = (PARAMETER, SPARK)
PACKAGES: Final = ("numpy", "pyarrow", "pyspark", "pandas")
_FLAG = re.compile("`--set ([^=`]+)=VALUE`")
"""How the command line names a parameter."""
_PLAINTEXT: Final = "plaintext"
_SHARED: Final = (
    shared_settings.NAME,
    shared_settings.CLASS,
    shared_settings.TASKS_MAX,
    "tasks.max.enforce",
    "config.action.reload",
    MEMORY,
)


def _is_file(name: str, value: object) -> None:
    if not os.path.isfile(str(value)):
        raise ValueError(wrong(name, value, "No such file on this worker"))


SETTINGS: Final = (
    *(one for one in shared_settings.CONNECTOR if one.name in _SHARED),
    Setting(
        FILE,
        Kind.STRING,
        importance=Importance.HIGH,
        documentation="A pipeline file, YAML or a Python module, at this path on each worker. "
        f"{PARAMETER}NAME is the value of ${{NAME}} in it, {SPARK}NAME a setting of Spark.",
        group="Pipeline",
        order=1,
        width="LONG",
        display_name="Pipeline file",
        check=_is_file,
    ),
)


def spec_of(config: Mapping[str, str], cluster: ClusterAccess | None) -> PipelineSpec:
    """`cluster`: that of a pipeline that names none. Raises ConfigError, with the line of the file."""
    try:
        require_extra("connector.class pipeline", "spark", PACKAGES)
    except MissingExtraError as error:
        raise ConfigError({shared_settings.CLASS: (str(error),)}) from error
    from moldau.products.pipelines.core.section import SpecError
    from moldau.products.pipelines.spec.spec import load_spec

    named = {name.removeprefix(PARAMETER): value for name, value in config.items() if name.startswith(PARAMETER)}
    try:
        return load_spec(Path(config[FILE]), {**os.environ, **named}, cluster=cluster)
    except SpecError as error:
        raise ConfigError({FILE: (_FLAG.sub(rf"`{PARAMETER}\1`", str(error)),)}) from error


def spark_settings(config: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in config.items() if name.startswith(SPARK)}


def cluster_of(servers: str, client: Mapping[str, str]) -> ClusterAccess | None:
    """The worker's cluster. None for one with TLS or a login: Spark gets secrets by reference, and a task has their
    values."""
    is_open = client.get("security.protocol", _PLAINTEXT).lower() == _PLAINTEXT
    return ClusterAccess(servers) if is_open else None
