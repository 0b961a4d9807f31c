"""The process of one question: `moldau.connect.plugins` with pipelines among the classes."""

from __future__ import annotations

import sys

from moldau.connect.plugins import answering as of_connectors
from moldau.connect.plugins.answering import Answer
from moldau.connect.plugins.asked import answer_stdin
from moldau.products.connect.pipelines import answering as of_pipelines


def answer(request: object) -> Answer:
    """Raises RequestError."""
    found = of_pipelines.answer(request) if isinstance(request, dict) else None
    if found is not None:
        return found
    found = of_connectors.answer(request)
    plugins = found.get("plugins")
    return {**found, "plugins": [of_pipelines.LISTED, *plugins]} if isinstance(plugins, list) else found


if __name__ == "__main__":
    sys.exit(answer_stdin(answer))
