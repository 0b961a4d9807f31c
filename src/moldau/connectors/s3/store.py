"""Writes objects to a store with Amazon S3's protocol. An object is visible once it is complete, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from moldau.connect.configuration import Secret
from moldau.errors import MoldauError
from moldau.extras import require_extra

AT_ONCE: Final = 8
"""Objects that are written at the same time."""
CONNECT_TIMEOUT_S: Final = 10
DEFAULT_REGION: Final = "us-east-1"

logger = logging.getLogger("moldau.connectors")


class StoreError(MoldauError):
    """The store did not take an object."""


@dataclass(frozen=True, slots=True)
class Store:
    bucket: str
    options: Mapping[str, Any] = field(repr=False)
    """Of pyarrow.fs.S3FileSystem."""
    attempts: int

    def put_all(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Objects with these names are replaced. Raises StoreError after the first failure."""
        from pyarrow import fs

        retries = fs.AwsStandardS3RetryStrategy(max_attempts=self.attempts)
        files = fs.S3FileSystem(
            **self.options, retry_strategy=retries, allow_delayed_open=True, background_writes=False
        )

        def put(one: tuple[str, bytes]) -> None:
            key, content = one
            try:
                stream = files.open_output_stream(f"{self.bucket}/{key}", compression=None)
                stream.write(content)
                stream.close()
            except OSError as error:
                raise StoreError(f"s3://{self.bucket}/{key} cannot be written: {error}") from error

        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = [pool.submit(put, one) for one in objects]
            try:
                for one in waiting:
                    one.result()
            except StoreError:
                for one in waiting:
                    one.cancel()
                raise


def store_of(values: Mapping[str, Any]) -> Store:
    """Raises MissingExtraError."""
    require_extra("the connector s3", "columnar")
    options: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "request_timeout": values["request.timeout.ms"] / 1_000,
        "force_virtual_addressing": not values["path.style"],
    }
    if values["endpoint"]:
        parts = urlsplit(values["endpoint"])
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    if values["region"]:
        options["region"] = values["region"]
    elif values["endpoint"]:
        options["region"] = DEFAULT_REGION
    names = {"access_key": "access.key.id", "secret_key": "secret.access.key", "session_token": "session.token"}
    for name, setting in names.items():
        secret = values[setting]
        if isinstance(secret, Secret):
            options[name] = secret.text
    return Store(values["bucket"], options, values["retry.max.attempts"])
