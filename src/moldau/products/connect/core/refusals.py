"""Rejected requests, with Kafka Connect's status and sentence."""

from __future__ import annotations

from moldau.errors import MoldauError


class Refusal(MoldauError):
    """`status`: of HTTP, and the `error_code` of the answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def no_connector(name: str) -> Refusal:
    return Refusal(404, f"Connector {name} not found")


def unknown_connector(name: str) -> Refusal:
    """As Kafka says it to a request that changes the connector's state."""
    return Refusal(404, f"Unknown connector {name}")


def no_status(name: str) -> Refusal:
    return Refusal(404, f"No status found for connector {name}")


def no_task_status(name: str, task: int) -> Refusal:
    return Refusal(404, f"No status found for task {name}-{task}")


def exists(name: str) -> Refusal:
    return Refusal(409, f"Connector {name} already exists")


def moving() -> Refusal:
    """While the group of workers shares the tasks anew."""
    return Refusal(
        409,
        "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.",
    )


def bad_request(sentence: str) -> Refusal:
    return Refusal(400, sentence)


def not_stopped(name: str) -> Refusal:
    return Refusal(
        400,
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        f"specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
    )


def other_number(name: str, tasks: int, kept: int) -> Refusal:
    """Of a source whose places are those of `kept` tasks."""
    return bad_request(
        f"The configuration gives connector {name} {tasks} {'task' if tasks == 1 else 'tasks'}, and its offsets are "
        f"those of {kept}: each would be at the place of another part of the source. Leave the number of tasks at "
        f"{kept}, or reset the offsets first, with a 'PUT' request to '/connectors/{name}/stop' and a 'DELETE' request "
        f"to '/connectors/{name}/offsets'; then the source begins again."
    )


def store_failed(reason: str) -> Refusal:
    return Refusal(500, f"The change could not be kept: {reason}")
