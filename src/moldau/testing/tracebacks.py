"""Shortens tracebacks. A failed test shows its own line and the error message, without Moldau's frames."""

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
    """Whether the message alone explains the error. False for a broken invariant of Moldau and for an unexpected error,
    where each frame matters."""
    return isinstance(error, MoldauError | ValueError | TypeError) and not isinstance(error, InvariantError)


def hides(caught: Caught) -> bool:
    """`__tracebackhide__` of the testing modules, in the form that pytest expects."""
    return is_said_in_words(caught.value)


def without_inner_frames(error: E) -> E:
    """An error from the broker's thread, to raise again in the test's thread. Drops its traceback if the message alone
    explains it."""
    return error.with_traceback(None) if is_said_in_words(error) else error
