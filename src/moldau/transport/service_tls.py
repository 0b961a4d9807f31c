"""The TLS of an HTTP service, by the `ssl.*` settings of Kafka; its files are read again when they change.

A connection uses the context that is current when its handshake begins.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

from moldau.core.config.tls_settings import TlsSettings
from moldau.errors import KafkaError
from moldau.transport.secrets import read_secret_text
from moldau.transport.security import tls_settings_from
from moldau.transport.tls import check_renewal, load_material, server_context

LOOK_AGAIN_S = 5.0
"""The pause between two checks of the files."""


class ServiceTls:
    """`context`: for the listening socket. Raises INVALID_CONFIG if the stores cannot be used. Thread-safe."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties`: by Kafka's names; secrets as text or as references."""
        texts = {name: read_secret_text(name, text) for name, text in properties.items()}
        self._settings = tls_settings_from(texts)
        self._stamps = _stamps(self._settings)
        self._material = load_material(self._settings)
        self.context = server_context(self._settings, self._material)
        self._newest = self.context
        self.context.sni_callback = self._take_newest

    def _take_newest(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """OpenSSL calls this in each handshake, even if the client sends no host name."""
        if connection.context is not self._newest:
            connection.context = self._newest

    def look(self) -> str | None:
        """Reads the files again if they have changed. Returns a sentence about the change; None: no change. Waits for
        the disk. Unusable files change nothing."""
        stamps = _stamps(self._settings)
        if stamps == self._stamps:
            return None
        self._stamps = stamps
        try:
            material = load_material(self._settings)
            check_renewal(self._settings, self._material, material)
            self._newest = server_context(self._settings, material)
        except KafkaError as error:
            return f"the service keeps its old certificate: {error.message or error.name}"
        self._material = material
        return "the service uses its new certificate for new connections"


def _stamps(settings: TlsSettings) -> tuple[tuple[int, int] | None, ...]:
    found: list[tuple[int, int] | None] = []
    for path in settings.files:
        try:
            status = os.stat(path)
            found.append((status.st_mtime_ns, status.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)
