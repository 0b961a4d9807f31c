"""DescribeCluster on every kind of listener: which endpoint types it serves."""

from __future__ import annotations

import enum

from moldau.errors import ERROR_CODES

ENDPOINT_TYPES_FROM = 1
NO_OPERATIONS = -(1 << 31)


class EndpointType(enum.IntEnum):
    """The owner of the requested addresses (KIP-919)."""

    BROKER = 1
    CONTROLLER = 2


def refused_endpoints(asked: int, served: EndpointType, api_version: int) -> tuple[int, str] | None:
    """Error code and message if a request asks for addresses other than those of `served`, which the listener
    serves."""
    if asked == served:
        return None
    if asked not in tuple(EndpointType):
        return ERROR_CODES["UNSUPPORTED_ENDPOINT_TYPE"], f"Unsupported endpoint type {asked}"
    # a version 0 client does not know endpoint types
    code = "MISMATCHED_ENDPOINT_TYPE" if api_version >= ENDPOINT_TYPES_FROM else "INVALID_REQUEST"
    served_name, asked_name = served.name, EndpointType(asked).name
    message = (
        f"The request was sent to an endpoint of type {served_name}, but we wanted an endpoint of type {asked_name}"
    )
    return ERROR_CODES[code], message
