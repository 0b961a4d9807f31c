"""Shortens tracebacks: a failed test shows its own line and the sentence, without our frames."""

from __future__ import annotations

from typing import Protocol, TypeVar

from moldau.errors import InvariantError, MoldauError

E = TypeVar("E", bound=BaseException)


class Caught(Protocol):
    """pytest's ExceptionInfo."""

    @property
    def value(self) -> BaseException:
        """The error."""
        ...


def is_said_in_words(error: BaseException) -> bool:
    """Not where a rule of Moldau's own broke, or where something unforeseen happened: there each frame counts."""
    return isinstance(error, MoldauError | ValueError | TypeError) and not isinstance(error, InvariantError)


def hides(caught: Caught) -> bool:
    """`__tracebackhide__` of the kit's modules, as pytest asks."""
    return is_said_in_words(caught.value)


def without_inner_frames(error: E) -> E:
    """An error that comes from the broker's thread, to be raised again in the test's."""
    return error.with_traceback(None) if is_said_in_words(error) else error
