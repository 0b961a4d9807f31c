"""ApiVersions: the APIs, versions and features that a node supports (KIP-35, 511, 584, 1242)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, message, wire


@message(versions="0-5", flexible="3+")
class ApiVersionsRequest(Request["ApiVersionsResponse"], frozen=True):
    """May be the first request of a connection. v0-2 are empty; v3 client software (KIP-511); v4 changes the response
    only; v5 the node that the client wants to reach (KIP-1242)."""

    client_software_name: Annotated[str, wire("3+", ignorable=True)] = ""
    client_software_version: Annotated[str, wire("3+", ignorable=True)] = ""
    cluster_id: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None
    node_id: Annotated[Int32, wire("5+", ignorable=True)] = -1


class ApiVersion(msgspec.Struct, frozen=True):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("3+")] = ""
    min_version: Annotated[Int16, wire("3+")] = 0
    max_version: Annotated[Int16, wire("3+")] = 0


class FinalizedFeatureKey(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("3+")] = ""
    max_version_level: Annotated[Int16, wire("3+")] = 0
    min_version_level: Annotated[Int16, wire("3+")] = 0


@message(versions="0-5", flexible="3+")
class ApiVersionsResponse(msgspec.Struct, frozen=True):
    """The APIs of the listener. v1 throttle time; v3 features as tagged fields (KIP-584); v4 also features whose lowest
    level is 0; v5 REBOOTSTRAP_REQUIRED if the client wanted another node (KIP-1242).

    The header is v0 in every version, so that a client with a too high version can read it.
    """

    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, wire("1+", ignorable=True)] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], wire("3+", tag=0, ignorable=True)] = ()
    finalized_features_epoch: Annotated[Int64, wire("3+", tag=1, ignorable=True)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], wire("3+", tag=2, ignorable=True)] = ()
    zk_migration_ready: Annotated[bool, wire("3+", tag=3, ignorable=True)] = False
