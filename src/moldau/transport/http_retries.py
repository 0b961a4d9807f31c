"""Says which HTTP responses are worth a retry, and when."""

from __future__ import annotations

import re
import time
import urllib.error
from email.utils import parsedate_to_datetime

_BUSY = 408, 425, 429
"""Request Timeout, Too Early, Too Many Requests (RFC 9110, 8470, 6585): the same request may succeed later."""


def may_pass(status: int) -> bool:
    return status in _BUSY or status >= 500


def asked_pause_s(error: BaseException | None) -> float:
    """The pause that the header `Retry-After` asks for, in the response that the error is or comes from. 0 without
    one."""
    while error is not None and not isinstance(error, urllib.error.HTTPError):
        error = error.__cause__
    return 0.0 if error is None else pause_s((error.headers.get("Retry-After") or "").strip())


def pause_s(retry_after: str) -> float:
    """The value of the header `Retry-After`, seconds or a time (RFC 9110), as seconds from now. 0 for another text."""
    if re.fullmatch("[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        return parsedate_to_datetime(retry_after).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
