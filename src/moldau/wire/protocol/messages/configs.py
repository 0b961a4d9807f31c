"""Settings of topics, brokers, groups and other resources (KIP-133, 226, 339, 1000, 1142)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


class DescribeConfigsResource(msgspec.Struct, frozen=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: Annotated[tuple[str, ...] | None, wire(nullable="0+")] = ()


@message(versions="1-4", flexible="4+")
class DescribeConfigsRequest(Request["DescribeConfigsResponse"], frozen=True):
    """Null `configuration_keys`: all of the resource.

    v1 synonyms; v3 documentation; v4 flexible.
    """

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: Annotated[bool, wire("3+")] = False


class DescribeConfigsSynonym(msgspec.Struct, frozen=True):
    name: str = ""
    value: Annotated[str | None, wire(nullable="0+")] = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(msgspec.Struct, frozen=True):
    name: str = ""
    value: Annotated[str | None, wire(nullable="0+")] = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, wire("3+", ignorable=True)] = 0
    documentation: Annotated[str | None, wire("3+", nullable="0+", ignorable=True)] = ""


class DescribeConfigsResult(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@message(versions="1-4", flexible="4+")
class DescribeConfigsResponse(msgspec.Struct, frozen=True):
    """v1 source and synonyms; v3 type and documentation. Values of sensitive settings are null."""

    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


class AlterableConfig(msgspec.Struct, frozen=True):
    name: str = ""
    value: Annotated[str | None, wire(nullable="0+")] = ""


class AlterConfigsResource(msgspec.Struct, frozen=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


@message(versions="0-2", flexible="2+")
class AlterConfigsRequest(Request["AlterConfigsResponse"], frozen=True):
    """Replaces all settings of each resource. Settings that it does not name return to their defaults."""

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""


@message(versions="0-2", flexible="2+")
class AlterConfigsResponse(msgspec.Struct, frozen=True):
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


class IncrementalAlterableConfig(msgspec.Struct, frozen=True):
    name: str = ""
    config_operation: Int8 = 0
    value: Annotated[str | None, wire(nullable="0+")] = ""


class IncrementalAlterConfigsResource(msgspec.Struct, frozen=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[IncrementalAlterableConfig, ...] = ()


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"], frozen=True):
    """Changes the named settings. `config_operation`: 0 set, 1 delete, 2 append, 3 subtract (KIP-339)."""

    resources: tuple[IncrementalAlterConfigsResource, ...] = ()
    validate_only: bool = False


class IncrementalAlterConfigsResourceResponse(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(msgspec.Struct, frozen=True):
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: tuple[IncrementalAlterConfigsResourceResponse, ...] = ()


@message(versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"], frozen=True):
    """v0 lists client metrics resources only (KIP-1000); v1 the named types, or all (KIP-1142)."""

    resource_types: Annotated[tuple[Int8, ...], wire("1+")] = ()


class ListedConfigResource(msgspec.Struct, frozen=True):
    resource_name: str = ""
    resource_type: Annotated[Int8, wire("1+", ignorable=True)] = 16


@message(versions="0-1", flexible="0+")
class ListConfigResourcesResponse(msgspec.Struct, frozen=True):
    """v1 the type of each."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ListedConfigResource, ...] = ()
