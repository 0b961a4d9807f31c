"""A pipeline that POSTs its rows: sent rows, retries, and the handling of rejected rows."""

from __future__ import annotations

import json

import pytest

from moldau.columnar.reader import read_topic
from moldau.errors import MoldauError
from moldau.spark.queries.supervision import MOST_RETRIES
from tests.support.receiver import NO_HTTP

SAID = {"moldau.reason": "the server answered 400 Bad Request", "moldau.pipeline": "pipe"}


@pytest.fixture
def headers_of(bootstrap_servers: str):
    """Of each record of a topic."""

    def read(topic: str) -> list[dict[str, str]]:
        rows = [
            row for batch in read_topic(bootstrap_servers, topic, include_headers=True) for row in batch.to_pylist()
        ]
        return [{header["key"]: header["value"].decode() for header in row["headers"]} for row in rows]

    return read


@pytest.fixture
def run(run_spec, new_topic, produce, receiver):
    """`run(words, more)` sends a record for each word."""

    def go(words: str, more: str = "", columns: str = "value as word", source: str = "", patience: str = "5 seconds"):
        source = source or new_topic()
        produce(source, [(None, word.encode()) for word in words.split()])
        spec = f"source: {{topic: {source}, format: string}}\nsql: select {columns} from source\n"
        return run_spec(spec + f'sink: {{webhook: "{receiver.url}"{more}}}\nretry_timeout: {patience}\n')

    return go


def test_rows_are_posted_as_lines_or_arrays(run, receiver):
    run("a b c", ", rows_per_request: 2, authorization: Bearer x")
    (first, lines), (_, rest) = receiver.requests
    assert [json.loads(line) for line in (lines + rest).splitlines()] == [{"word": word} for word in "abc"]
    assert (first["Content-Type"], first["Authorization"]) == ("application/x-ndjson", "Bearer x")
    assert first["Moldau-Batch"].startswith("pipe ")
    assert first["Moldau-Batch"].endswith(" 0")


def test_a_time_keeps_its_microseconds(run, receiver):
    run("a", columns="timestamp'2026-01-02T03:04:05.123456Z' as at")
    assert [body for _, body in receiver.requests] == ['{"at":"2026-01-02T03:04:05.123456Z"}\n']


def test_an_array_is_one_json_value(run, receiver):
    run("a b", ", body: array")
    assert [json.loads(body) for _, body in receiver.requests] == [[{"word": "a"}, {"word": "b"}]]


@pytest.mark.slow
def test_a_server_that_is_busy_or_fails_is_asked_again(run, new_topic, receiver):
    """With a setting for rejected rows: none of these responses is a rejection."""
    receiver.answers += [503, 429, 408, NO_HTTP]
    run("a", f", dead_letters: {new_topic()}")
    assert [body for _, body in receiver.requests] == ['{"word":"a"}\n']


@pytest.mark.slow
def test_a_refusal_ends_the_pipeline_with_the_row(run):
    with pytest.raises(MoldauError, match=r'/in answered 400 Bad Request to \{"word":"bad"\}'):
        run("bad")


def test_refused_rows_alone_become_dead_letters(run, new_topic, read_back, headers_of, receiver):
    letters = new_topic()
    run("a bad b", f", dead_letters: {letters}")
    assert read_back(letters) == [(None, b'{"word":"bad"}')]
    assert headers_of(letters) == [SAID]
    assert "".join(sorted(body for _, body in receiver.requests)) == '{"word":"a"}\n{"word":"b"}\n'


def test_a_dead_letter_says_why_whose_and_from_where(run, new_topic, headers_of):
    letters, source = new_topic(), new_topic()
    run(
        "a b c bad d",
        f", dead_letters: {letters}, rows_per_request: 2",
        "value as word, _topic, _partition, _offset",
        source,
    )
    origin = {"moldau.topic": source, "moldau.partition": "0", "moldau.offset": "3"}
    assert headers_of(letters) == [{**SAID, **origin}]


@pytest.mark.slow
def test_a_server_that_stays_away_is_said_in_a_sentence(run, receiver):
    receiver.answers += [500] * 100
    with pytest.raises(MoldauError, match="/in answered 500 Internal Server Error to"):
        run("a")


@pytest.mark.slow
def test_a_redirect_is_a_refusal(run, receiver):
    receiver.answers = [302] * 9
    with pytest.raises(MoldauError, match="answered 302"):
        run("a")


@pytest.mark.slow
def test_a_server_that_asks_for_more_time_than_there_is_is_asked_once_more(run, receiver):
    receiver.answers, receiver.retry_after = [429] * 100, "3600"
    with pytest.raises(MoldauError, match="answered 429 Too Many Requests, with Retry-After: 3600, to"):
        run("a", patience="1 second")
    runs = 1 + MOST_RETRIES
    assert 100 - len(receiver.answers) <= 2 * runs, "each run asks at first, and when the time is over"


@pytest.mark.slow
@pytest.mark.parametrize("retry_after", ["1", "Mon, 06 Nov 2000 08:49:37 GMT", "soon", "-1", "9" * 400])
def test_a_row_comes_whatever_the_server_writes_as_the_pause(run, receiver, retry_after):
    receiver.answers, receiver.retry_after = [503], retry_after
    run("a")
    assert [body for _, body in receiver.requests] == ['{"word":"a"}\n']
