"""Routes of a service. Each names the least role that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from moldau.products.service.people import Person, Role

ANY_SUBJECT = "*"
"""Stands for the name of a path parameter."""

Endpoint = Callable[[Request], Awaitable[Response]]


class ServedRoute(Route):
    """`subject`: the path parameter that names a subject; a role on its prefix counts (`Person.role_on`). ANY_SUBJECT:
    a role on any prefix suffices, and the endpoint shows only the objects that the person may see."""

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        needs: Role,
        methods: Sequence[str] | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(path, endpoint, methods=None if methods is None else list(methods))
        self.needs = needs
        self.subject = subject


class ServedFiles(Mount):
    """The files of a folder, which belong to the program: open to all if `needs` is NOBODY."""

    def __init__(self, path: str, directory: Path, *, needs: Role) -> None:
        super().__init__(path, StaticFiles(directory=directory))
        self.needs = needs


ServiceRoute = ServedRoute | ServedFiles


def check_routes(routes: Sequence[BaseRoute]) -> None:
    """Raises TypeError for a route that names no role."""
    for route in routes:
        if not isinstance(route, ServedRoute | ServedFiles):
            raise TypeError(f"{route!r} names no role: make it a ServedRoute")


class Needed(msgspec.Struct, frozen=True):
    """The requirement of one request: a role, for the subject in its path. ANY_SUBJECT: for any subject."""

    role: Role
    subject: str | None = None

    def has(self, person: Person) -> bool:
        """Whether the person has the role."""
        found = person.greatest_role if self.subject == ANY_SUBJECT else person.role_on(self.subject)
        return found >= self.role


def needed_by(routes: Sequence[ServiceRoute], scope: Scope) -> Needed:
    """Unknown paths, and methods that a path does not have, need a viewer."""
    for route in routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            name = route.subject if isinstance(route, ServedRoute) else None
            named = name if name in (None, ANY_SUBJECT) else str(found["path_params"][name])
            return Needed(route.needs, named)
    return Needed(Role.VIEWER, ANY_SUBJECT)
