"""Tries a change of a listener's stores before it is written: a store that does not load, or has another name, changes
nothing (KIP-226, 978)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.core.config.broker_alteration import effective_broker_settings, invalid_request
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.tls_settings import TlsSettings, tls_setting_of
from moldau.core.controller.configs import setting_layers
from moldau.core.metadata.image import MetadataImage
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.metadata_records import ConfigRecord

if TYPE_CHECKING:
    from moldau.transport.tls import TlsMaterial


def check_stores(image: MetadataImage, static: BrokerSettings, records: Iterable[object]) -> None:
    """`records`: the records that the change of this node's own settings would write. Reads the files on the loop,
    because such changes are rare. Raises INVALID_REQUEST."""
    changed = [each for each in records if isinstance(each, ConfigRecord) and tls_setting_of(each.name) is not None]
    if not changed:
        return
    layers = setting_layers(image, static)
    own = dict(layers.broker)
    for record in changed:
        if record.value is None:
            own.pop(record.name, None)
        else:
            own[record.name] = record.value
    before = effective_broker_settings(static, layers.cluster, layers.broker)[0]
    after = effective_broker_settings(static, layers.cluster, own)[0]
    from moldau.transport.tls import check_renewal, client_context, load_material, server_context

    try:
        for name in after.tls_listeners:
            tls = after.tls_of(name)
            old = before.tls_of(name)
            if tls is None or tls == old:
                continue
            material = load_material(tls)
            client_context(tls, material)
            if tls.keystore is not None:
                server_context(tls, material)
            in_use = None if old is None else _still_there(old)
            if in_use is not None:
                check_renewal(tls, in_use, material)
    except KafkaError as error:
        raise invalid_request(error.message or error.name) from error


def _still_there(tls: TlsSettings) -> TlsMaterial | None:
    """The material of these settings; None if one of their stores is gone: the comparison with it is then skipped."""
    from moldau.transport.tls import load_material

    try:
        return load_material(tls)
    except KafkaError:
        return None
