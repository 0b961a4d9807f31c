"""The trace of a failure, for people."""

from __future__ import annotations

from moldau.connect.handling.stages import IN_STAGE


def problem_of(trace: str | None) -> str:
    """The last line, which has the error. A line after it that says at which record and in which stage goes along."""
    lines = (trace or "").strip().splitlines()
    if len(lines) > 1 and lines[-1].startswith(IN_STAGE):
        return f"{lines[-2]} ({lines[-1]})"
    return lines[-1] if lines else ""
