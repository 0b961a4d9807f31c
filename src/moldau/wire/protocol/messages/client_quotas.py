"""Quotas of users, client ids and addresses (KIP-546, 612, 599)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


class QuotaFilterComponent(msgspec.Struct, frozen=True):
    entity_type: str = ""
    match_type: Int8 = 0
    match: Annotated[str | None, wire(nullable="0+")] = ""


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"], frozen=True):
    """`match_type`: 0 the named entity, 1 the default entity, 2 any of the type.

    `strict`: without other components.
    """

    components: tuple[QuotaFilterComponent, ...] = ()
    strict: bool = False


class QuotaEntityData(msgspec.Struct, frozen=True):
    entity_type: str = ""
    entity_name: Annotated[str | None, wire(nullable="0+")] = ""


class QuotaValueData(msgspec.Struct, frozen=True):
    key: str = ""
    value: float = 0.0


class QuotaEntryData(msgspec.Struct, frozen=True):
    entity: tuple[QuotaEntityData, ...] = ()
    values: tuple[QuotaValueData, ...] = ()


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(msgspec.Struct, frozen=True):
    """An `entity_name` of null is the default entity. Null `entries`: the request failed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    entries: Annotated[tuple[QuotaEntryData, ...] | None, wire(nullable="0+")] = ()


class AlterQuotaEntity(msgspec.Struct, frozen=True):
    entity_type: str = ""
    entity_name: Annotated[str | None, wire(nullable="0+")] = ""


class AlterQuotaOperation(msgspec.Struct, frozen=True):
    key: str = ""
    value: float = 0.0
    remove: bool = False


class AlterQuotaEntry(msgspec.Struct, frozen=True):
    entity: tuple[AlterQuotaEntity, ...] = ()
    ops: tuple[AlterQuotaOperation, ...] = ()


@message(versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], frozen=True):
    """Sets or removes values; the entity with a null name is the default one."""

    entries: tuple[AlterQuotaEntry, ...] = ()
    validate_only: bool = False


class AlterQuotaEntityResult(msgspec.Struct, frozen=True):
    entity_type: str = ""
    entity_name: Annotated[str | None, wire(nullable="0+")] = ""


class AlterQuotaEntryResult(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    entity: tuple[AlterQuotaEntityResult, ...] = ()


@message(versions="0-1", flexible="1+")
class AlterClientQuotasResponse(msgspec.Struct, frozen=True):
    """One result for each entity."""

    throttle_time_ms: Int32 = 0
    entries: tuple[AlterQuotaEntryResult, ...] = ()
