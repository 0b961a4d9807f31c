"""Access control lists (KIP-140, 290, 430)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


@message(versions="1-3", flexible="2+")
class DescribeAclsRequest(Request["DescribeAclsResponse"], frozen=True):
    """A filter; null names match every name."""

    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, wire(nullable="0+")] = ""
    pattern_type_filter: Int8 = 3
    principal_filter: Annotated[str | None, wire(nullable="0+")] = ""
    host_filter: Annotated[str | None, wire(nullable="0+")] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(msgspec.Struct, frozen=True):
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(msgspec.Struct, frozen=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    acls: tuple[AclDescription, ...] = ()


@message(versions="1-3", flexible="2+")
class DescribeAclsResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    resources: tuple[DescribeAclsResource, ...] = ()


class AclCreation(msgspec.Struct, frozen=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions="1-3", flexible="2+")
class CreateAclsRequest(Request["CreateAclsResponse"], frozen=True):
    creations: tuple[AclCreation, ...] = ()


class AclCreationResult(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""


@message(versions="1-3", flexible="2+")
class CreateAclsResponse(msgspec.Struct, frozen=True):
    """One result for each creation."""

    throttle_time_ms: Int32 = 0
    results: tuple[AclCreationResult, ...] = ()


class DeleteAclsFilter(msgspec.Struct, frozen=True):
    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, wire(nullable="0+")] = ""
    pattern_type_filter: Int8 = 3
    principal_filter: Annotated[str | None, wire(nullable="0+")] = ""
    host_filter: Annotated[str | None, wire(nullable="0+")] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions="1-3", flexible="2+")
class DeleteAclsRequest(Request["DeleteAclsResponse"], frozen=True):
    filters: tuple[DeleteAclsFilter, ...] = ()


class DeleteAclsMatchingAcl(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


@message(versions="1-3", flexible="2+")
class DeleteAclsResponse(msgspec.Struct, frozen=True):
    """One result for each filter."""

    throttle_time_ms: Int32 = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()
