"""Reads the cluster of a pipeline, source or target: `bootstrap_servers`, or `cluster` with settings.

    bootstrap_servers: 127.0.0.1:9092

    cluster: {profile: production}                  # of ~/.config/moldau/profiles.toml

    cluster:                                        # by the names of Kafka's clients
      bootstrap.servers: kafka.example.org:9093
      security.protocol: SASL_SSL
      ssl.truststore.type: PEM
      ssl.truststore.location: ca.pem               # next to the pipeline file
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: alice
      sasl.password: ${KAFKA_PASSWORD}              # an environment variable, read where a connection is opened

A pipeline file holds no secrets. A secret setting names an environment variable, or has a reference in Kafka's form
(see `client.protocol.secrets`). Plans, checkpoints, commit metadata and Spark tasks hold only the reference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from moldau.client.protocol.access import (
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CONNECT_TIMEOUT,
    REQUEST_TIMEOUT,
    AccessError,
    ClusterAccess,
    parse_bootstrap_servers,
)
from moldau.client.protocol.secrets import SECRET_SETTINGS
from moldau.client.protocol.security import SASL_JAAS_CONFIG, SECURITY_SETTINGS
from moldau.errors import KafkaError
from moldau.products.pipelines.core.keys import MappingKey, Text
from moldau.products.pipelines.core.places import one_list
from moldau.products.pipelines.core.section import Section
from moldau.transport.profiles import profile_access

SERVERS: Final = Text(
    "bootstrap_servers", "The brokers: `host:port`, or several with commas.", absent="required, or `cluster`"
)
CLUSTER: Final = MappingKey(
    "cluster", "A [secured cluster](operating.md#secured-clusters), in place of `bootstrap_servers`.", absent="none"
)
PROFILE: Final = Text("profile", "A [profile](../../use/profiles.md).", absent="none")
CLUSTER_KEYS: Final = (SERVERS, CLUSTER)
"""A pipeline, source or target may have at most one of them."""
TOPIC_CLUSTER_KEYS: Final = (
    Text(SERVERS, "The brokers of the topic's cluster.", absent="those of the pipeline"),
    MappingKey(CLUSTER, "The topic's cluster, if it is secured.", absent="that of the pipeline"),
)
"""The same keys for a topic."""
CLIENT_SETTINGS: Final = (BOOTSTRAP_SERVERS, *SECURITY_SETTINGS, CLIENT_ID, REQUEST_TIMEOUT, CONNECT_TIMEOUT)
_VARIABLE = re.compile(r"\$\{([^{}\s:]+)\}")
_JAAS_PASSWORD = re.compile(r"""(\s(?:password|clientSecret)\s*=\s*["']?)(\$\{[^{}\s]+\})""")


def names_cluster(section: Section) -> bool:
    return any(section.has(key) for key in CLUSTER_KEYS)


def parse_cluster(section: Section, directory: Path) -> ClusterAccess:
    """Access to the cluster that the section names. Equal for the same brokers in any order. `directory`: the base of
    relative paths. Raises SpecError."""
    if section.has(CLUSTER):
        if section.has(SERVERS):
            section.refuse(CLUSTER, f"and `{SERVERS}` name a cluster both: leave one of them out")
        return _in_order(_parse(CLUSTER.of(section), directory))
    try:
        return ClusterAccess(one_list(parse_bootstrap_servers(SERVERS.of(section))))
    except ValueError as error:
        section.refuse(SERVERS, f"must be host:port, or several with commas: {error}")


def spec_cluster(
    spec: Section, directory: Path, profile: str | None, default: ClusterAccess | None = None
) -> ClusterAccess:
    """`profile`, or else `default`: used if the pipeline names no cluster. Raises SpecError."""
    if names_cluster(spec):
        return parse_cluster(spec, directory)
    if profile is None and default is not None:
        return _in_order(default)
    if profile is None:
        spec.refuse(SERVERS, f"is missing; `{CLUSTER}` or --profile can name a cluster too")
    return _in_order(_of_profile(spec, None, profile, None))


def _parse(cluster: Section, directory: Path) -> ClusterAccess:
    if cluster.has(PROFILE):
        cluster.allow(PROFILE, BOOTSTRAP_SERVERS)
        servers = cluster.text(BOOTSTRAP_SERVERS) if cluster.has(BOOTSTRAP_SERVERS) else None
        return _of_profile(cluster, PROFILE, PROFILE.of(cluster), servers)
    cluster.allow(PROFILE, *CLIENT_SETTINGS)
    properties = {name: setting_of(cluster, name, directory) for name in cluster.entries()}
    try:
        access = ClusterAccess.from_properties(properties)
        access.spark_options()  # rejects a secret that is not a reference
    except AccessError as error:
        key = error.name if cluster.has(error.name) else None
        cluster.refuse(key, error.reason if key else str(error))
    return access


def setting_of(cluster: Section, name: str, directory: Path) -> str:
    """A client setting. Paths are relative to `directory`; secrets must be references. Raises SpecError."""
    if name in SECRET_SETTINGS:
        return _secret(cluster, name)
    if name.endswith((".location", ".file")):
        return str(cluster.local_path(name, directory))
    return cluster.text(name, may_be_blank=True)


def _secret(cluster: Section, name: str) -> str:
    """The value in the pipeline file, with `${env:NAME}` for `${NAME}`. Raises SpecError for a literal secret."""
    text = cluster.text_as_written(name)
    if name == SASL_JAAS_CONFIG:
        found = _JAAS_PASSWORD.search(text)
        if found is None:
            told = 'must have password="${NAME}" (clientSecret for OAUTHBEARER), and NAME be an environment variable'
            cluster.refuse(name, f"{told} that has it")
        before, after = (cluster.fill(name, part, cluster.line_of(name)) for part in _around(text, found))
        return f"{before}{_reference(cluster, name, found[2])}{after}"
    if not re.fullmatch(r"\$\{[^{}]+\}", text):
        cluster.refuse(name, "must be ${NAME}, an environment variable: a pipeline file holds no secret")
    return _reference(cluster, name, text)


def _around(text: str, found: re.Match[str]) -> tuple[str, str]:
    return text[: found.start(2)], text[found.end(2) :]


def _reference(cluster: Section, name: str, text: str) -> str:
    found = _VARIABLE.fullmatch(text)
    if found is None:
        return text
    if cluster.value_of(found[1]) not in (None, os.environ.get(found[1])):
        cluster.refuse(name, f"must come from the environment: `--set {found[1]}=` shows it to all who list processes")
    return f"${{env:{found[1]}}}"


def _of_profile(section: Section, key: str | None, profile: str, servers: str | None) -> ClusterAccess:
    try:
        access = profile_access(profile, servers=servers)
        access.spark_options()
    except AccessError as error:
        section.refuse(key, f"is not possible: {error}")
    except KafkaError as error:
        section.refuse(key, f"cannot be read: {error}")
    return access


def _in_order(access: ClusterAccess) -> ClusterAccess:
    return msgspec.structs.replace(access, bootstrap_servers=one_list(access.addresses()))
