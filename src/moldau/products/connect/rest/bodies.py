"""The bodies of requests: JSON objects, checked. Each function raises Refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request

from moldau.products.connect.connector_offsets import Change
from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import Target

MAX_BODY = 1_000_000
"""In bytes: a larger body does not fit into a record of a broker with Kafka's default settings."""
MOST_SETTINGS = 10_000
STATES = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}

Object = dict[str, Any]


async def read_body(request: Request) -> bytes:
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MAX_BODY:
            raise refusals.Refusal(413, f"The body is larger than {MAX_BODY} bytes")
    return bytes(found)


def object_of(body: bytes) -> Object:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusals.bad_request(f"The request is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise refusals.bad_request("The request is no JSON object")
    return found


def config_of(found: Mapping[str, object], where: str = "The request") -> dict[str, str | None]:
    """A configuration: its values are texts; numbers and booleans become texts, as in Kafka."""
    if len(found) > MOST_SETTINGS:
        raise refusals.bad_request(f"{where} has more than {MOST_SETTINGS} settings")
    return {name: _text(name, value) for name, value in found.items()}


def whole_config(found: Mapping[str, object]) -> dict[str, str]:
    """Without the settings that are null."""
    return {name: value for name, value in config_of(found).items() if value is not None}


def creation_of(found: Object) -> tuple[str, dict[str, str], Target | None]:
    """Name, configuration and first state of a new connector."""
    unknown = sorted(found.keys() - {"name", "config", "initial_state"})
    if unknown:
        raise refusals.bad_request(f'Unrecognized field "{unknown[0]}": name, config and initial_state are known')
    config, name, state = found.get("config"), found.get("name"), found.get("initial_state")
    if not isinstance(config, dict):
        raise refusals.bad_request('The request has no object "config"')
    if name is not None and not isinstance(name, str):
        raise refusals.bad_request("The name is no text")
    if state is None:
        return (name or "").strip(), whole_config(config), None
    if not isinstance(state, str) or state.upper() not in STATES:
        raise refusals.bad_request(f"initial_state is one of {', '.join(STATES)}, not {state!r}")
    return (name or "").strip(), whole_config(config), STATES[state.upper()]


def changes_of(found: Object) -> list[Change]:
    """The changes of offsets."""
    offsets = found.get("offsets")
    if not offsets:
        raise refusals.bad_request("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(offsets, list):
        raise refusals.bad_request("offsets is no list")
    return [_change(one) for one in offsets]


def _change(one: object) -> Change:
    if not isinstance(one, dict) or not isinstance(one.get("partition"), dict):
        raise refusals.bad_request('Each of offsets has an object "partition"')
    offset = one.get("offset")
    if offset is not None and not isinstance(offset, dict):
        raise refusals.bad_request("An offset is an object or null")
    return one["partition"], offset


def _text(name: str, value: object) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            raise refusals.bad_request(f"The value of {name} is no text")
