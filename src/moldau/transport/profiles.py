"""Profiles: named settings that reach clusters, in one file of the user.

    [profiles.production]
    bootstrap.servers = "kafka.example.org:9093"
    security.protocol = "SASL_SSL"
    ssl.truststore.type = "PEM"
    ssl.truststore.location = "~/ca.pem"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "alice"
    sasl.password = {env = "KAFKA_PASSWORD"}    # or {file = "PATH"}, or the password itself

The names are those of Kafka's clients. A file that others can read is rejected.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moldau.client.protocol.access import BOOTSTRAP_SERVERS, AccessError, ClusterAccess
from moldau.client.protocol.secrets import SECRET_SETTINGS, Origin, Secret
from moldau.errors import kafka_error
from moldau.transport.secrets import read_text
from moldau.types import hint

TABLE: Final = "profiles"
_FOR_OTHERS: Final = 0o077


def profiles_path() -> Path:
    """`~/.config/moldau/profiles.toml`, or its place in XDG_CONFIG_HOME."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".config"
    return base / "moldau" / "profiles.toml"


def profile_access(name: str, *, servers: str | None = None) -> ClusterAccess:
    """The cluster of a profile. `servers` overrides the profile's. Raises INVALID_CONFIG with a sentence that names the
    profile, without a secret."""
    path = profiles_path()
    properties = profile_properties(path, name)
    if servers is not None:
        properties[BOOTSTRAP_SERVERS] = servers
    try:
        return ClusterAccess.from_properties(properties, origin=origin_of_profile(path, name))
    except AccessError as error:
        raise kafka_error("INVALID_CONFIG", f"profile {name} in {path}: {error}") from None


def origin_of_profile(path: Path, name: str) -> Origin:
    """How to refer to secrets in the profile."""
    return Origin(str(path), f"{TABLE}.{name}.")


def profile_properties(path: Path, name: str) -> dict[str, str]:
    """The settings of a profile, with references in the form of `client.protocol.secrets`. Raises INVALID_CONFIG."""
    found = _profiles(path)
    table = found.get(name)
    if not isinstance(table, dict):
        raise kafka_error("INVALID_CONFIG", f"{path} has no profile {name}{hint(name, found)}")
    return _flat(table, path, name)


def _profiles(path: Path) -> dict[str, object]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise kafka_error("INVALID_CONFIG", f"cannot read the profiles in {path}: {error.strerror}") from error
    if mode & _FOR_OTHERS:
        told = f"{path} may hold secrets, and others can read it (mode {mode & 0o777:04o}): chmod 600 {path}"
        raise kafka_error("INVALID_CONFIG", told)
    try:
        tables = tomllib.loads(read_text(str(path), "profiles")).get(TABLE, {})
    except tomllib.TOMLDecodeError as error:
        raise kafka_error("INVALID_CONFIG", f"{path} is not TOML: {error}") from None
    if not isinstance(tables, dict):
        raise kafka_error("INVALID_CONFIG", f"{path}: {TABLE} must be a table, as in [{TABLE}.production]")
    return tables


def _flat(table: Mapping[str, object], path: Path, profile: str, prefix: str = "") -> dict[str, str]:
    """Restores Kafka's dotted names, which TOML splits into tables unless they are quoted."""
    found: dict[str, str] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            reference = _reference(name, value, path)
            found |= _flat(value, path, profile, f"{name}.") if reference is None else {name: reference}
        elif isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, str):
            is_home = name.endswith((".location", ".file")) and value.startswith("~/")
            found[name] = str(Path(value).expanduser()) if is_home else value
        elif isinstance(value, int):
            found[name] = str(value)
        else:
            raise kafka_error("INVALID_CONFIG", f"profile {profile} in {path}: {name} must be a text or a number")
    return found


def _reference(name: str, table: Mapping[str, object], path: Path) -> str | None:
    """The reference in the table; None if it is none."""
    if name not in SECRET_SETTINGS or len(table) != 1:
        return None
    ((kind, place),) = table.items()
    if kind not in ("env", "file") or not isinstance(place, str):
        return None
    if kind == "env":
        return Secret.in_environment(place).reference()
    return Secret.in_file(str(path.parent / Path(place).expanduser())).reference()
