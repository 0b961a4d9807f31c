"""Secrets in configurations of connectors: references that the worker reads when it starts a task.

A setting may have Kafka's references to external values, also within a text: `${env:NAME}`, `${file:PATH:NAME}`,
`${directory:DIRECTORY:FILE}`. The topic of configurations and the REST interface have the reference; the value goes to
the standard input of the task alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.client.protocol.secrets import parse_reference
from moldau.transport.secrets import read_secret

_REFERENCE = re.compile(r"\$\{(?:env|file|directory):[^}]+\}")


def resolved(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration with the values in the place of the references. Waits for the disk. Raises KafkaError, which
    names the setting and has no part of a secret."""
    return {name: _resolved(name, text) for name, text in config.items()}


def has_reference(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def _resolved(setting: str, text: str) -> str:
    return _REFERENCE.sub(lambda found: _read(found[0], setting), text)


def _read(text: str, setting: str) -> str:
    secret = parse_reference(text)
    return text if secret is None else read_secret(secret, setting)
