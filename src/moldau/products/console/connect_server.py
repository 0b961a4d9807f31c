"""Requests to the workers of connectors, on worker threads: the REST interface of Kafka Connect, of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import ClassVar, TypeVar
from urllib.parse import quote

import msgspec

from moldau.products.console.called_service import MAX_ANSWER, CalledService, CalledServiceError
from moldau.products.console.core.connectors import (
    Connector,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    ToldProgress,
)

ACTIONS: Mapping[str, tuple[str, str]] = {
    "pause": ("PUT", "/pause"),
    "resume": ("PUT", "/resume"),
    "stop": ("PUT", "/stop"),
    "restart": ("POST", "/restart?includeTasks=true&onlyFailed=false"),
}
"""What people may do with a connector, with method and path."""

Kind = TypeVar("Kind")


class _Progress(msgspec.Struct, frozen=True):
    tasks: tuple[ToldProgress, ...] = ()


class _Offsets(msgspec.Struct, frozen=True):
    offsets: tuple[ConnectorOffset, ...] = ()


_CONNECTORS = msgspec.json.Decoder(dict[str, Connector])
_INFO = msgspec.json.Decoder(ConnectorInfo)
_STATUS = msgspec.json.Decoder(ConnectorStatus)
_PROGRESS = msgspec.json.Decoder(_Progress)
_OFFSETS = msgspec.json.Decoder(_Offsets)


class ConnectServer(CalledService, frozen=True):
    """Any worker answers."""

    PREFIX: ClassVar[str] = "connect."
    FLAG: ClassVar[str] = "--connect"
    NOUN: ClassVar[str] = "the worker of connectors"

    def connectors(self) -> list[Connector]:
        """In the order of names. Raises CalledServiceError."""
        found = self._get("/connectors?expand=info&expand=status&expand=progress", _CONNECTORS)
        return [found[name] for name in sorted(found)]

    def connector(self, name: str) -> Connector:
        """Raises CalledServiceError."""
        path = _path(name)
        return Connector(self._get(path, _INFO), self._get(f"{path}/status", _STATUS), self._progress(path))

    def offsets(self, name: str) -> tuple[ConnectorOffset, ...]:
        """Raises CalledServiceError."""
        return self._get(f"{_path(name)}/offsets", _OFFSETS).offsets

    def act(self, name: str, action: str) -> None:
        """`action`: of ACTIONS. Raises CalledServiceError."""
        method, path = ACTIONS[action]
        self._ask(f"{_path(name)}{path}", method)

    def _progress(self, path: str) -> tuple[ToldProgress, ...]:
        """Nothing of a worker of Apache Kafka."""
        try:
            return self._get(f"{path}/progress", _PROGRESS).tasks
        except CalledServiceError:
            return ()

    def _get(self, path: str, decoder: msgspec.json.Decoder[Kind]) -> Kind:
        return self.decoded(decoder, self._ask(path))

    def _ask(self, path: str, method: str = "GET") -> bytes:
        """The answer of the first worker that gives one."""
        told: CalledServiceError | None = None
        for url in self.urls:
            try:
                with closing(self.opened(url, path, method)) as answer:
                    return answer.read(MAX_ANSWER + 1)
            except CalledServiceError as error:
                if error.code:
                    raise
                told = error
        raise told or CalledServiceError("no worker of connectors is named")


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"
