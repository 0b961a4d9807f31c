"""Tests that are coroutine functions, each run by a function that prepares a world for it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def run_by(
    run: Callable[..., Any], *arguments: Any, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Makes pytest call `run(story, *arguments, **options)`, where `story` is the decorated function.

    `run` fills the positional parameters of the story; fixtures and parametrized values fill its keyword-only ones.
    """

    def decorate(story: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(story)
        def test(**fixtures: Any) -> None:
            run(functools.partial(story, **fixtures), *arguments, **options)

        signature = inspect.signature(story)
        of_pytest = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
        test.__signature__ = signature.replace(parameters=of_pytest)  # type: ignore[attr-defined]
        return test

    return decorate
