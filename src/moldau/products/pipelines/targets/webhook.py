"""An HTTP server as a target: tasks POST their rows as JSON, several at a time.

    sink: {webhook: "https://example.com/orders", authorization: "Bearer ${TOKEN}", dead_letters: refused-orders}

If the server is unavailable, busy (408, 425, 429) or fails (5xx, or a response that is not HTTP), a request is retried
for the pipeline's `retry_timeout`, with growing pauses, or longer ones if its header `Retry-After` says so. If it
rejects a request (any other status than 2xx, including redirects), the pipeline ends, or the rejected rows go to the
topic `dead_letters`: a rejected request of many rows is sent again in requests of one row each. Headers of the dead
letter hold the server's response, the pipeline, and the origin of the row, if it has `_topic`, `_partition` and
`_offset`.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moldau.errors import MoldauError
from moldau.products.pipelines.core.commit_metadata import PIPELINE_HEADER, REASON_HEADER
from moldau.products.pipelines.core.keys import Choice, Number, Text, TopicName, WebAddress
from moldau.products.pipelines.core.patience import keep_trying
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.json_text import json_of_row
from moldau.products.pipelines.targets.target import Target, TargetQuery, refuse_double_columns
from moldau.products.pipelines.targets.topic import origins_of, write_to_topic
from moldau.transport import http_retries

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

WEBHOOK = WebAddress(
    "webhook", "https://example.com/orders", "An [HTTP server](targets.md#webhooks) that gets the rows."
)
LINES, ARRAY = "lines", "array"
CONTENT_TYPES = {LINES: "application/x-ndjson", ARRAY: "application/json"}
BODY = Choice("body", (LINES, ARRAY), "One JSON object for each line, or one array.", default=LINES)
ROWS_PER_REQUEST = Number("rows_per_request", "How many rows a request has.", number=100, least=1, most=10_000)
AUTHORIZATION = Text("authorization", "The header `Authorization`, such as `Bearer ${TOKEN}`.", absent="none")
DEAD_LETTERS = TopicName(
    "dead_letters", "An existing topic for rejected rows.", absent="a rejected row ends the pipeline"
)
ANSWER_SECONDS = 30
LETTER = "value string, headers array<struct<key: string, value: binary>>"


class WebhookError(MoldauError):
    """The server rejected rows, or could not be reached; the message says why."""


class WebhookTarget(Target, frozen=True, kw_only=True):
    """`topic`: for dead letters; None: a rejected request ends the pipeline."""

    NAMED_BY = WEBHOOK
    KEYS = (*Target.KEYS, BODY, ROWS_PER_REQUEST, AUTHORIZATION, DEAD_LETTERS)

    url: str
    body: str = LINES
    rows_per_request: int = ROWS_PER_REQUEST.number
    authorization: str = ""

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> WebhookTarget:
        url, authorization = WEBHOOK.of(sink), AUTHORIZATION.if_given(sink) or ""
        if not re.fullmatch(r"[\x20-\x7e\xa0-\xff]*", authorization):
            sink.refuse(AUTHORIZATION, "must be one line of letters that a header takes, such as `Bearer abc`")
        return cls(
            mode=cls.parse_mode(sink),
            topic=DEAD_LETTERS.of(sink) if sink.has(DEAD_LETTERS) else None,
            url=url,
            body=BODY.of(sink),
            rows_per_request=ROWS_PER_REQUEST.of(sink),
            authorization=authorization,
        )

    def describe(self) -> tuple[str, str]:
        return f"POST {self.url}", "at least once: a batch that a crash cuts short is sent again"

    def rows_of(self, result: DataFrame) -> DataFrame:
        refuse_double_columns(result.columns, in_any_case=False)
        return result.selectExpr(f"{json_of_row(result)} as value", *origins_of(result))

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        def write(batch: DataFrame, batch_id: int) -> None:
            # a repeated batch has the same number, but its rows may be split into other requests
            headers = {
                "Content-Type": CONTENT_TYPES[self.body],
                "Moldau-Batch": f"{query.pipeline} {query.checkpoint_id} {batch_id}",
                **({"Authorization": self.authorization} if self.authorization else {}),
            }
            post = _Post(
                url=self.url,
                headers=headers,
                is_array=self.body == ARRAY,
                rows_per_request=self.rows_per_request,
                patience_ms=query.times.retry_timeout_ms,
                pipeline=query.spec,
                keeps_refused=self.topic is not None,
            )
            refused = batch.mapInArrow(partial(_post_rows, post), LETTER)
            if self.topic is None:
                refused.collect()
            else:
                write_to_topic(refused, query.times.of(query.access), self.topic)

        return write


class _Post(msgspec.Struct, frozen=True):
    """How a task sends its rows. `keeps_refused`: returns rejected rows instead of raising. `pipeline`: the name in
    their headers."""

    url: str
    headers: Mapping[str, str]
    is_array: bool
    rows_per_request: int
    patience_ms: int
    pipeline: str
    keeps_refused: bool


class _Refused(msgspec.Struct, frozen=True):
    """`place`: of the row, among those to be sent."""

    place: int
    reason: str


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as a rejection: Python would follow it with a GET, without the rows, and take that for a
    success."""

    def redirect_request(self, *_asked: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _post_rows(post: _Post, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows that the server rejected, as LETTER."""
    import pyarrow as pa

    kinds = pa.struct([("key", pa.string()), ("value", pa.binary())])
    letter = pa.schema([("value", pa.string()), ("headers", pa.list_(kinds))])
    for batch in batches:
        rows = batch.column("value").to_pylist()
        for begin in range(0, len(rows), post.rows_per_request):
            refused = _send(post, rows[begin : begin + post.rows_per_request], begin)
            if refused:
                letters = [{"value": rows[one.place], "headers": _headers(post, batch, one)} for one in refused]
                yield pa.RecordBatch.from_pylist(letters, letter)


def _headers(post: _Post, batch: pa.RecordBatch, refused: _Refused) -> list[dict[str, str | bytes]]:
    """The columns besides the row, which hold its origin."""
    origin = {
        f"moldau.{name.removeprefix('_')}": str(batch.column(name)[refused.place].as_py())
        for name in batch.schema.names
        if name != "value"
    }
    said = {REASON_HEADER: refused.reason, **origin, PIPELINE_HEADER: post.pipeline}
    return [{"key": name, "value": text.encode()} for name, text in said.items()]


def _send(post: _Post, rows: Sequence[str], place: int) -> list[_Refused]:
    """The rows that the server rejected. `place`: of the first row. Raises WebhookError."""
    body = f"[{','.join(rows)}]" if post.is_array else "".join(f"{row}\n" for row in rows)
    request = urllib.request.Request(post.url, body.encode(), dict(post.headers))

    def act() -> None:
        _OPENER.open(request, timeout=ANSWER_SECONDS).close()

    try:
        keep_trying(act, _may_pass, post.patience_ms, f"POST {post.url}", asked_pause_s=http_retries.asked_pause_s)
    except urllib.error.HTTPError as error:
        if not post.keeps_refused or _may_pass(error):
            wait = error.headers.get("Retry-After")
            told = f", with Retry-After: {wait[:100]}," if wait else ""
            raise WebhookError(f"{post.url} answered {error.code} {error.reason}{told} to {rows[0][:200]}") from error
        if len(rows) == 1:
            return [_Refused(place, f"the server answered {error.code} {error.reason}")]
        return [bad for number, row in enumerate(rows, place) for bad in _send(post, [row], number)]
    except HTTPException as error:
        raise WebhookError(f"{post.url} gave no answer of HTTP: {error}") from error
    except OSError as error:
        raise WebhookError(f"{post.url} cannot be reached: {getattr(error, 'reason', error)}") from error
    return []


def _may_pass(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return http_retries.may_pass(error.code)
    return isinstance(error, OSError | HTTPException)
