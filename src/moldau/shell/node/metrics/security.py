"""The metrics of listeners, certificates and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.quotas.connections import UNLIMITED
from moldau.shell.network.audit import DROPPED, EVENTS, NOT_WRITTEN
from moldau.shell.node.issuer_keys import FAILED_REFRESHES, KEYS, REFRESHES
from moldau.shell.node.tls import CERTIFICATE_END
from moldau.transport.exposition import Samples, labels_text

if TYPE_CHECKING:
    from moldau.shell.node.status import NodeStatus

_DAY_MS = 86_400_000

LISTENER_ROWS: tuple[tuple[str, str, tuple[str, ...], str, str], ...] = (
    ("moldau_listener_connections_accepted_total", "counter", ("listener",),
     "Connections that were let in", "ConnectionQuotas"),
    ("moldau_listener_connections_waiting", "gauge", ("listener",),
     "Connections that wait, unread, until another one ends (max.connections)", "ConnectionAdmission"),
    ("moldau_listener_connections_limit", "gauge", ("listener",),
     "listener.name.NAME.max.connections, where it is set", "ConnectionQuotas"),
    ("moldau_listener_connection_creation_rate_limit", "gauge", ("listener",),
     "listener.name.NAME.max.connection.creation.rate, where it is set", "ConnectionQuotas"),
    ("moldau_certificate_expiry_days", "gauge", ("listener",),
     "Days until the listener's own certificate ends; negative: it has ended", "NodeTls"),
    ("moldau_issuer_keys", "gauge", ("url",), "Keys of an issuer of tokens that can be used", "IssuerKeys"),
    ("moldau_issuer_key_refreshes_total", "counter", ("url",), "Times that the keys were read", "IssuerKeys"),
    ("moldau_issuer_key_failed_refreshes_total", "counter", ("url",),
     "Times that they could not be read; those of before stay in use", "IssuerKeys"),
    ("moldau_audit_events_total", "counter", ("event",), "Events of the audit log", "Audit"),
    ("moldau_audit_dropped_events_total", "counter", (),
     "Events that were not written: the queue was full, or the disk", "Audit"),
    ("moldau_audit_refusals_left_out_total", "counter", (),
     "Refusals of clients that were refused too often: counted in a later line", "Audit"),
)  # fmt: skip
"""Rows in the format of table.py."""


def add_security(node: NodeStatus, out: Samples) -> None:
    """Adds all metrics of this module."""
    admission, telemetry = node.group.admission, node.telemetry
    quotas = admission.quotas
    for listener, count in quotas.accepted.items():
        out.add("moldau_listener_connections_accepted_total", count, labels_text(listener=listener))
    for listener, count in admission.waiting().items():
        out.add("moldau_listener_connections_waiting", count, labels_text(listener=listener))
    for listener, limits in quotas.limits.listeners.items():
        labels = labels_text(listener=listener)
        if limits.max_connections != UNLIMITED:
            out.add("moldau_listener_connections_limit", limits.max_connections, labels)
        if limits.creation_rate != UNLIMITED:
            out.add("moldau_listener_connection_creation_rate_limit", limits.creation_rate, labels)
    now_ms = node.clock.now_ms()
    for listener, end_ms in telemetry.labels_of(CERTIFICATE_END):
        days = round((end_ms - now_ms) / _DAY_MS, 3)
        out.add("moldau_certificate_expiry_days", days, labels_text(listener=listener))
    for name, key in (
        ("moldau_issuer_keys", KEYS),
        ("moldau_issuer_key_refreshes_total", REFRESHES),
        ("moldau_issuer_key_failed_refreshes_total", FAILED_REFRESHES),
    ):
        for url, count in telemetry.labels_of(key):
            out.add(name, count, labels_text(url=url))
    for kind, count in telemetry.labels_of(EVENTS):
        out.add("moldau_audit_events_total", count, labels_text(event=kind))
    for name, key in (("dropped_events", DROPPED), ("refusals_left_out", NOT_WRITTEN)):
        if telemetry.value(key):
            out.add(f"moldau_audit_{name}_total", telemetry.value(key))
