"""A change of a listener's stores is tried before it is written: what does not load changes nothing (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.core.config.broker_alteration import effective_broker_settings, invalid_request
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.tls_settings import tls_setting_of
from moldau.core.controller.configs import setting_layers
from moldau.core.metadata.image import MetadataImage
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.metadata_records import ConfigRecord


def check_stores(image: MetadataImage, static: BrokerSettings, records: Iterable[object]) -> None:
    """`records`: what the change of this node's own settings would write. The files are read on the loop: an operator
    does this seldom. Raises INVALID_REQUEST."""
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
    from moldau.transport.tls import client_context, load_material, server_context

    try:
        for name in after.tls_listeners:
            tls = after.tls_of(name)
            if tls is None or tls == before.tls_of(name):
                continue
            material = load_material(tls)
            client_context(tls, material)
            if tls.keystore is not None:
                server_context(tls, material)
    except KafkaError as error:
        raise invalid_request(error.message or error.name) from error
