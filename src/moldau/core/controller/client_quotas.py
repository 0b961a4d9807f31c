"""AlterClientQuotas and DescribeClientQuotas (KIP-546, 612). Unlike in Apache Kafka, NaN is rejected."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence

from moldau.core.metadata.batches import MAX_BATCH_RECORDS, batch_too_large
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.core.quotas.limits import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
    quota_entity,
)
from moldau.errors import KafkaError, kafka_error
from moldau.types import Pausing, each_of
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterQuotaEntityResult,
    AlterQuotaEntry,
    AlterQuotaEntryResult,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaEntityData,
    QuotaEntryData,
    QuotaFilterComponent,
    QuotaValueData,
)
from moldau.wire.protocol.messages.metadata_records import ClientQuotaRecord, EntityData

MAX_MESSAGE_LENGTH = 1_000
LONG = ("a LONG", 2**63 - 1)
INT = ("an INT", 2**31 - 1)
CLIENT_KEYS: dict[str, tuple[str, int] | None] = {
    PRODUCER_BYTE_RATE: LONG,
    CONSUMER_BYTE_RATE: LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""By quota key of users and client ids: the range of a whole number, or None if any number is valid."""
IP_KEYS: dict[str, tuple[str, int] | None] = {CONNECTION_CREATION_RATE: INT}

ORDER = {CLIENT_ID: 0, USER: 1, IP: 2}

MATCH_EXACT = 0
MATCH_DEFAULT = 1
MATCH_SPECIFIED = 2


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest
) -> Pausing[tuple[list[MetadataRecord], AlterClientQuotasResponse]]:
    """The records of the changes (none if only validating), and a result for each entity."""
    entities: dict[QuotaEntity, dict[str, str | None]] = {}
    operations: dict[QuotaEntity, Sequence[AlterQuotaOperation]] = {}
    repeated: dict[QuotaEntity, None] = {}
    for number, entry in enumerate(request.entries):
        yield
        parts = yield from _parts(entry)
        entity = _key_of(parts, number)
        if entity in entities or (yield from _has_repeated_key(entry)):
            repeated[entity] = None
        entities[entity] = parts
        operations[entity] = entry.ops
    records: list[MetadataRecord] = []
    results: list[AlterQuotaEntryResult] = []
    changes = 0
    for entity in list(entities):
        yield
        # one by one, because freeing thousands at the end would block the loop
        parts, refused_as = entities.pop(entity), None
        try:
            if entity in repeated:
                named = ", ".join(f"{kind}={name}" for kind, name in entity)
                raise _invalid(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{named}}})")
            changed = yield from _entity_records(image, entity, parts, operations.pop(entity))
            changes += len(changed)
            if changes <= MAX_BATCH_RECORDS:
                records += changed
        except KafkaError as error:
            refused_as = error
        results.append((yield from _result(parts, refused_as)))
    if changes > MAX_BATCH_RECORDS:
        records = []
        too_large = batch_too_large()
        results = list((yield from each_of(_with_error(result, too_large) for result in results)))
    return [] if request.validate_only else records, AlterClientQuotasResponse(entries=tuple(results))


def refused(request: AlterClientQuotasRequest, error: KafkaError) -> Pausing[AlterClientQuotasResponse]:
    """The response with the same error for each entry."""
    results: list[AlterQuotaEntryResult] = []
    for entry in request.entries:
        parts = yield from _parts(entry)
        results.append((yield from _result(parts, error)))
        yield
    return AlterClientQuotasResponse(entries=tuple(results))


def _parts(entry: AlterQuotaEntry) -> Pausing[dict[str, str | None]]:
    """The parts of the entity. As in Kafka, the last name of a repeated type counts."""
    parts: dict[str, str | None] = {}
    for part in entry.entity:
        parts[part.entity_type] = part.entity_name
        yield
    return parts


def _key_of(parts: Mapping[str, str | None], number: int) -> QuotaEntity:
    """The entity as a key. An entity with more parts than types is always rejected, so its key only has to be unique:
    the number of the entry."""
    return quota_entity(parts) if len(parts) <= len(ORDER) else ((str(number), None),)


def _has_repeated_key(entry: AlterQuotaEntry) -> Pausing[bool]:
    keys: dict[str, None] = {}
    for operation in entry.ops:
        if operation.key in keys:
            return True
        keys[operation.key] = None
        yield
    return False


def _result(parts: Mapping[str, str | None], error: KafkaError | None) -> Pausing[AlterQuotaEntryResult]:
    """The result of one entry. The parts are in the order of ORDER, unknown types first."""
    in_order: list[AlterQuotaEntityResult] = []
    for place in ORDER.values():
        for kind, name in parts.items():
            if ORDER.get(kind, 0) == place:
                in_order.append(AlterQuotaEntityResult(kind, name))
            yield
    result = AlterQuotaEntryResult(0, None, tuple(in_order))
    return result if error is None else _with_error(result, error)


def _with_error(result: AlterQuotaEntryResult, error: KafkaError) -> AlterQuotaEntryResult:
    message = None if error.message is None else error.message[:MAX_MESSAGE_LENGTH]
    return AlterQuotaEntryResult(error.code, message, result.entity)


def _invalid(message: str) -> KafkaError:
    return kafka_error("INVALID_REQUEST", message)


def _entity_records(
    image: MetadataImage,
    entity: QuotaEntity,
    parts: Mapping[str, str | None],
    operations: Sequence[AlterQuotaOperation],
) -> Pausing[list[MetadataRecord]]:
    """The records of one entity, at most one more than fits in a batch: the request is rejected then. Raises
    INVALID_REQUEST for the first error."""
    _check_entity(parts)
    keys = IP_KEYS if IP in parts else CLIENT_KEYS
    current = image.client_quotas.get(entity, {})
    data = tuple(EntityData(kind, name) for kind, name in entity)
    records: list[MetadataRecord] = []
    for operation in operations:
        yield
        if operation.remove:
            is_change, value = operation.key in current, 0.0
        else:
            _check_value(keys, operation.key, operation.value)
            is_change, value = current.get(operation.key) != operation.value, operation.value
        if is_change and len(records) <= MAX_BATCH_RECORDS:
            records.append(ClientQuotaRecord(data, operation.key, value, operation.remove))
    return records


def _check_entity(parts: Mapping[str, str | None]) -> None:
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in ORDER:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in parts:
        return
    if len(parts) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = parts[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")


def _is_address(text: str) -> bool:
    """Whether the text is an address or `localhost`. Other names are rejected: a quota must not depend on DNS."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def _check_value(keys: Mapping[str, tuple[str, int] | None], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if math.isnan(value) or value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    whole = keys[key]
    if whole is None:
        return
    name, largest = whole
    if value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {name}.")
    if value != int(value):
        raise _invalid(f"{key} cannot be a fractional value.")


def describe_client_quotas(
    image: MetadataImage, request: DescribeClientQuotasRequest
) -> Pausing[DescribeClientQuotasResponse]:
    """The entities that match every component. Strict: without other parts."""
    try:
        components = _components(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries: list[QuotaEntryData] = []
    for entity, values in sorted(image.client_quotas.items(), key=lambda item: repr(item[0])):
        yield
        parts = dict(entity)
        if request.strict and len(parts) != len(components):
            continue
        if all(kind in parts and _matches(component, parts[kind]) for kind, component in components.items()):
            in_order = sorted(entity, key=lambda part: ORDER.get(part[0], 0))
            entries.append(
                QuotaEntryData(
                    tuple(QuotaEntityData(kind, name) for kind, name in in_order),
                    tuple(QuotaValueData(key, value) for key, value in sorted(values.items())),
                )
            )
    return DescribeClientQuotasResponse(entries=tuple(entries))


def _matches(component: QuotaFilterComponent, name: str | None) -> bool:
    if component.match_type == MATCH_SPECIFIED:
        return True
    return name == component.match if component.match_type == MATCH_EXACT else name is None


def _components(components: Sequence[QuotaFilterComponent]) -> dict[str, QuotaFilterComponent]:
    """By entity type. Raises INVALID_REQUEST, and UNSUPPORTED_VERSION for a type that does not exist."""
    found: dict[str, QuotaFilterComponent] = {}
    for component in components:
        kind, match_type = component.entity_type, component.match_type
        if match_type not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
            raise _invalid(f"Unknown match type {match_type}")
        if match_type == MATCH_EXACT and component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if match_type != MATCH_EXACT and component.match is not None:
            name = "MATCH_TYPE_DEFAULT" if match_type == MATCH_DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise _invalid(f"Request specified {name}, but also specified a match string.")
        if kind == "":
            raise _invalid("Invalid empty entity type.")
        if kind in found:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ORDER:
            raise kafka_error("UNSUPPORTED_VERSION", f"Unsupported entity type {kind[:MAX_MESSAGE_LENGTH]}")
        found[kind] = component
    if IP in found and len(found) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return found
