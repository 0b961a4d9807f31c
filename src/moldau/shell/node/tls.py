"""The TLS of one node: contexts for its listeners and for its connections to others, renewed when a file or a setting
changes. New connections use the new contexts; open ones continue."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.security_settings import HTTP
from moldau.core.config.tls_settings import TlsSettings
from moldau.errors import KafkaError
from moldau.ports import Workers
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.network.session import ANONYMOUS
from moldau.telemetry import Telemetry
from moldau.transport.network import Network, NetworkInFront

if TYPE_CHECKING:
    from moldau.transport.tls import ClientTls, ServerTls, TlsMaterial

LOOK_AGAIN_S = 5.0
"""The pause between two checks of the files."""
WARN_DAYS = 30
_DAY_MS = 86_400_000
CERTIFICATE_END = "moldau.server:type=Tls,name=CertificateEnd"
"""Telemetry by listener: when its certificate expires, in ms since the epoch."""


class NodeTls:
    """Used on the node's loop. Raises INVALID_CONFIG if the stores of a listener cannot be used. If no listener has
    TLS, it imports no TLS code, which would cost a start milliseconds."""

    def __init__(
        self, settings: BrokerSettings, log: EventLog, now_ms: Callable[[], int], telemetry: Telemetry
    ) -> None:
        self._log = log
        self._telemetry = telemetry
        self._now_ms = now_ms
        names = (*settings.tls_listeners, *((HTTP,) if settings.moldau_http_tls else ()))
        self._listeners = {name: _ListenerTls(name, settings) for name in names}
        for listener in self._listeners.values():
            self._tell_expiry(listener)

    @property
    def is_used(self) -> bool:
        """Whether any listener has TLS."""
        return bool(self._listeners)

    def secured(self, network: Network) -> Network:
        """`network` with TLS for the listeners of other nodes."""
        return SecuredNetwork(network, self) if self._listeners else network

    def server(self, listener_name: str) -> ServerTls | None:
        """The TLS to open the listener with; None: it has no TLS."""
        listener = self._listeners.get(listener_name)
        return None if listener is None else listener.server

    def client(self, listener_name: str) -> ClientTls | None:
        """The TLS for connections to those listeners of other nodes; None: they have no TLS."""
        listener = self._listeners.get(listener_name)
        return None if listener is None else listener.client

    def principal_of(self, listener_name: str) -> Callable[[bytes | None], str | None] | None:
        """See CertifiedPrincipal; None: the listener has no TLS."""
        listener = self._listeners.get(listener_name)
        return None if listener is None else listener.principal_of

    def settings_changed(self, settings: BrokerSettings) -> None:
        """Applies the settings in force. A listener with changed settings gets new contexts at once, so the requester
        of the change finds them in use. Reads the stores on the loop, because such changes are rare."""
        for name, listener in self._listeners.items():
            tls = settings.tls_of(name)
            if tls is not None and tls != listener.settings:
                self._take(listener, tls, partial(_load, tls))

    async def watch(self, workers: Workers) -> None:
        """Reads changed files again until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            for listener in self._listeners.values():
                await self.look(listener.name, workers)
                if self._now_ms() - listener.told_ms >= _DAY_MS:
                    self._tell_expiry(listener)

    async def look(self, listener_name: str, workers: Workers) -> None:
        """Reads the files of a listener again if they have changed."""
        listener = self._listeners[listener_name]
        tls = listener.settings
        stamps = await workers.run(partial(_stamps, tls))
        if stamps == listener.stamps:
            return
        try:
            material = await workers.run(partial(_load, tls))
            _check_renewal(tls, listener.material, material)
        except KafkaError as error:
            self._tell_failure(listener, error)
            listener.stamps = stamps
            return
        if listener.settings is tls:
            self._take(listener, tls, lambda: material)
            listener.stamps = stamps

    def _take(self, listener: _ListenerTls, tls: TlsSettings, load: Callable[[], TlsMaterial]) -> None:
        try:
            listener.take(tls, load())
        except KafkaError as error:
            self._tell_failure(listener, error)
            return
        self._log.info("TLS", f"listener {listener.name} uses its new certificates for new connections")
        self._tell_expiry(listener)

    def _tell_failure(self, listener: _ListenerTls, error: KafkaError) -> None:
        text = f"listener {listener.name} goes on with its old certificates: {escape(error.message or error.name)}"
        self._log.warn("TLS", text, about=listener.name)

    def _tell_expiry(self, listener: _ListenerTls) -> None:
        """Warns at the start, with each new certificate, and once a day."""
        end_ms, now_ms = listener.material.expires_ms, self._now_ms()
        listener.told_ms = now_ms
        if end_ms is None:
            return
        self._telemetry.set(CERTIFICATE_END, end_ms, listener.name)
        days = (end_ms - now_ms) // _DAY_MS
        if days < WARN_DAYS:
            when = "has expired" if days < 0 else f"expires in {days} days"
            self._log.warn(f"certificate {listener.name}", f"the certificate of listener {listener.name} {when}")


class _ListenerTls:
    """The TLS of one listener name. A node that only connects there, as a broker to a controller, may have no key."""

    def __init__(self, name: str, settings: BrokerSettings) -> None:
        from moldau.transport.tls import ClientTls, ServerTls, client_context, server_context

        self.name = name
        self.told_ms = 0
        """When the expiry was last reported or checked."""
        tls = settings.tls_of(name)
        if tls is None:
            raise ValueError(f"listener {name} has no TLS")
        self.stamps = _stamps(tls)
        self.settings, self.material = tls, _load(tls)
        self.client = ClientTls(client_context(tls, self.material))
        self.server: ServerTls | None = None
        if tls.keystore is not None:
            self.server = ServerTls(server_context(tls, self.material))

    def take(self, tls: TlsSettings, material: TlsMaterial) -> None:
        """Raises INVALID_CONFIG and then changes nothing."""
        from moldau.transport.tls import client_context, server_context

        client = client_context(tls, material)
        if self.server is not None:
            self.server.use(server_context(tls, material))
        self.client.use(client)
        self.settings, self.material = tls, material

    def principal_of(self, certificate: bytes | None) -> str | None:
        """See CertifiedPrincipal."""
        from moldau.wire.x509 import subject_name

        if certificate is None:
            return ANONYMOUS
        name = self.settings.principal_rules.principal_of(subject_name(certificate))
        return None if name is None else f"User:{name}"


class SecuredNetwork(NetworkInFront):
    """The network of a node with the TLS for each listener of other nodes."""

    def __init__(self, network: Network, tls: NodeTls) -> None:
        super().__init__(network)
        self._tls = tls

    def client_tls(self, listener_name: str) -> ClientTls | None:
        """See Network."""
        return self._tls.client(listener_name)


def _load(tls: TlsSettings) -> TlsMaterial:
    from moldau.transport.tls import load_material

    return load_material(tls)


def _check_renewal(tls: TlsSettings, old: TlsMaterial, new: TlsMaterial) -> None:
    from moldau.transport.tls import check_renewal

    check_renewal(tls, old, new)


def _stamps(tls: TlsSettings) -> tuple[tuple[int, int, int], ...]:
    """Detects a changed file; zeros for an absent one."""
    return tuple(map(_stamp, tls.files))


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
