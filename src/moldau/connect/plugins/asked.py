"""One question on stdin, its answer on stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping

from moldau.connect.plugins.answering import RequestError

WRONG_REQUEST = 2


def answer_stdin(answer: Callable[[object], Mapping[str, object]]) -> int:
    """The exit code. `answer`: raises RequestError."""
    answers = _own_stdout()
    try:
        request = json.loads(sys.stdin.readline())
        answers_json = json.dumps(answer(request))
    except (RequestError, json.JSONDecodeError) as error:
        sys.stderr.write(f"not a request: {error}\n")
        return WRONG_REQUEST
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        stream.write(answers_json + "\n")
    return 0


def _own_stdout() -> int:
    """A descriptor for the answer. What the code of connectors prints goes to stderr."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers
