"""Errors of the registry: HTTP status, error code and sentence, as in Confluent's registry."""

from __future__ import annotations

from moldau.errors import MoldauError

FORBIDDEN = 40301


class Refusal(MoldauError):
    """`code`: the `error_code` of the response; its first three digits are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class SchemaError(MoldauError):
    """A text is not a schema of its kind; the message gives the reason."""


def denied(operation: str, subject: str | None) -> Refusal:
    """The error in the words of Confluent's registry. `subject`: None for objects of all subjects."""
    where = "this schema or level" if subject is None else f"Subject: {subject}"
    return Refusal(FORBIDDEN, f"User is denied operation {operation} on {where}")


def not_served(name: str, where: str) -> Refusal:
    return Refusal(400, f"`{name}` {where} is not served")


def invalid_parameter(name: str, text: str) -> Refusal:
    return Refusal(400, f"{name}={text} is not a number from 0")


def no_subject(subject: str) -> Refusal:
    return Refusal(40401, f"Subject '{subject}' not found.")


def no_version(version: int) -> Refusal:
    return Refusal(40402, f"Version {version} not found.")


def no_schema() -> Refusal:
    return Refusal(40403, "Schema not found")


def subject_deleted_already(subject: str) -> Refusal:
    return Refusal(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_deleted_first(subject: str) -> Refusal:
    return Refusal(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_deleted_already(subject: str, version: int) -> Refusal:
    return Refusal(
        40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )


def version_not_deleted_first(subject: str, version: int) -> Refusal:
    return Refusal(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def no_level(subject: str) -> Refusal:
    return Refusal(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> Refusal:
    return Refusal(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, problems: list[str]) -> Refusal:
    return Refusal(
        409, f'the schema is incompatible with an earlier version of subject "{subject}": {"; ".join(problems)}'
    )


def invalid_schema(reason: str) -> Refusal:
    return Refusal(42201, f"Invalid schema: {reason}")


def invalid_version(text: str) -> Refusal:
    return Refusal(
        42202,
        f"The specified version '{text}' is not a valid version id. Allowed values are from 1 to 2147483647, and"
        ' "latest"',
    )


def invalid_level(text: object) -> Refusal:
    return Refusal(
        42203,
        f"Invalid compatibility level {text!r}. Valid values are NONE, BACKWARD, BACKWARD_TRANSITIVE, FORWARD,"
        " FORWARD_TRANSITIVE, FULL, and FULL_TRANSITIVE",
    )


def not_permitted(subject: str, mode: str) -> Refusal:
    return Refusal(42205, f"Subject {subject} is in {mode} mode")


def is_referenced(subject: str, version: int) -> Refusal:
    return Refusal(42206, f"One or more references exist to version {version} of subject '{subject}'")


def invalid_subject(subject: str) -> Refusal:
    return Refusal(42208, f"The specified subject {subject!r} is not a valid subject")


def store_failed(reason: str) -> Refusal:
    return Refusal(50001, f"Error in the backend data store - {reason}")


def took_too_long(reason: str) -> Refusal:
    return Refusal(50002, f"Operation timed out - {reason}")
