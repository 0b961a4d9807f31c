"""Quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
    QuotaFilterComponent,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
_NAMED, _DEFAULT, _ANY = 0, 1, 2


class Quota(msgspec.Struct, frozen=True):
    """The limits of one entity: its parts (type to name; None is the default entity) and the values."""

    entity: dict[str, str | None]
    values: dict[str, float]


class Part(msgspec.Struct, frozen=True):
    """One part of a filter: a name, the default entity, or (both unset) any entity of the type."""

    kind: str
    name: str | None = None
    is_default: bool = False


def describe_quotas(admin: ClusterAdmin, parts: Sequence[Part], *, strict: bool = True) -> list[Quota]:
    """The quotas of entities with these parts. `strict`: without additional parts."""
    components = tuple(
        QuotaFilterComponent(
            entity_type=part.kind,
            match_type=_DEFAULT if part.is_default else _ANY if part.name is None else _NAMED,
            match=part.name,
        )
        for part in parts
    )
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    response = admin.ask(request)
    if response.error_code:
        raise error_of(response.error_code, response.error_message)
    return [
        Quota(
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)},
        )
        for entry in response.entries or ()
    ]


def alter_quotas(
    admin: ClusterAdmin, entity: Mapping[str, str | None], to_set: Mapping[str, float], to_delete: Sequence[str]
) -> None:
    """Sets and removes limits of one entity."""
    operations = [AlterQuotaOperation(key=key, value=value) for key, value in to_set.items()]
    operations += [AlterQuotaOperation(key=key, remove=True) for key in to_delete]
    entry = AlterQuotaEntry(
        entity=tuple(AlterQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(operations),
    )
    response = admin.ask(AlterClientQuotasRequest(entries=(entry,)))
    for row in response.entries:
        if row.error_code:
            raise error_of(row.error_code, row.error_message)
