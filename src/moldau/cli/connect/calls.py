"""Calls to the REST interface of a worker: of Moldau, or of Apache Kafka."""

from __future__ import annotations

import argparse
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from moldau.cli.output import CommandError

DEFAULT_URL = "http://127.0.0.1:8083"
URL_VARIABLE = "MOLDAU_CONNECT_URL"
TOKEN_VARIABLE = "MOLDAU_CONNECT_TOKEN"
TIMEOUT_S = 90.0
REBALANCE_S = 30.0
"""How long a request is sent again to a group of workers that rebalances."""
PAUSE_S = 0.5
CONFLICT = 409


def add_url_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"any worker of the group (default: {URL_VARIABLE} of the environment, else {DEFAULT_URL}). A worker with "
        f"logins gets the bearer token in {TOKEN_VARIABLE} of the environment",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def call(arguments: argparse.Namespace, method: str, *path: str, query: str = "", body: object = None) -> Any:
    """The answer; None if it has no body. `path`: parts, not encoded. Waits while the workers rebalance. Raises
    CommandError with the worker's sentence."""
    base = (arguments.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
    url = "/".join([base, *(urllib.parse.quote(part, safe="") for part in path)]) + (f"?{query}" if query else "")
    headers = {"content-type": "application/json", "accept": "application/json"}
    token = os.environ.get(TOKEN_VARIABLE)
    if token:
        headers["authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    end_s = time.monotonic() + REBALANCE_S
    try:
        request = urllib.request.Request(url, data, headers, method=method)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    return _read(answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    sentence = _sentence(error)
                if error.code != CONFLICT or "rebalance" not in sentence or time.monotonic() > end_s:
                    raise CommandError(sentence) from error
            time.sleep(PAUSE_S)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CommandError(f"no worker answers at {base}: {getattr(reason, 'strerror', None) or reason}") from error


def call_if_answered(arguments: argparse.Namespace, *path: str) -> Any:
    """The answer to GET of a path that only some workers have; None without one."""
    try:
        return call(arguments, "GET", *path)
    except CommandError:
        return None


def _read(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise CommandError("the answer is no JSON: is that the address of a worker?") from error


def _sentence(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError):
        return f"the worker answers {error.code} {error.reason}"
