"""Confluent's HTTP interface: paths, queries and writes. Responses are JSON, errors have an `error_code`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from moldau.products.registry.core import decisions
from moldau.products.registry.core.kinds.kinds import KINDS, PROTOBUF
from moldau.products.registry.core.kinds.protobuf import serialized
from moldau.products.registry.core.records import AVRO, Reference, SchemaValue
from moldau.products.registry.core.refusals import (
    FORBIDDEN,
    Refusal,
    SchemaError,
    invalid_level,
    invalid_parameter,
    invalid_schema,
    invalid_subject,
    invalid_version,
    no_level,
    no_mode,
    no_schema,
    not_served,
)
from moldau.products.registry.core.rights import Operation, Rights
from moldau.products.registry.core.state import LATEST, RegistryState, Schema, schema_of
from moldau.products.registry.topic import SchemasTopic
from moldau.products.service.people import person_of
from moldau.products.service.routes import ANY_SUBJECT, ServedRoute

CONTENT = "application/vnd.schemaregistry.v1+json"
MAX_BODY = 1_000_000
"""In bytes: a larger body does not fit into a record of a broker with Kafka's default settings."""
ALL_CONTEXTS = ":*:"
"""A prefix that some clients put before the prefix of subjects."""
PAGE = ("offset", "limit")
READ, WRITE, DELETE = Operation.READ, Operation.WRITE, Operation.DELETE
DELETE_FOR_GOOD, SET_LEVEL = Operation.DELETE_FOR_GOOD, Operation.SET_LEVEL

T = TypeVar("T")


class Question(msgspec.Struct, frozen=True):
    """A parsed request. `rights`: of the person who sends it; `body`: the object of a POST or PUT."""

    path: dict[str, Any]
    query: dict[str, str]
    rights: Rights
    body: dict[str, Any] = {}

    def says(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def page(self, found: Sequence[T]) -> Sequence[T]:
        """The part that `offset` and `limit` select. Raises Refusal."""
        offset, limit = self._integer("offset", 0), self._integer("limit", -1)
        if offset < 0:
            raise invalid_parameter("offset", str(offset))
        return found[offset:] if limit < 0 else found[offset : offset + limit]

    def _integer(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        if not re.fullmatch(r"-?[0-9]{1,10}|", text):
            raise invalid_parameter(name, text)
        return int(text or default)

    @property
    def subject(self) -> str:
        """The subject in the path. Raises Refusal."""
        subject = str(self.path["subject"])
        return _subject(subject)

    @property
    def filter(self) -> str:
        """The subject in the parameter `subject`; empty for all. Raises Refusal."""
        asked = self.query.get("subject", "")
        return asked and _subject(asked)

    @property
    def version(self) -> int:
        """The version in the path: its number, or LATEST. Raises Refusal."""
        text = str(self.path["version"])
        if text in ("latest", str(LATEST)):
            return LATEST
        number = _number(text)
        if not number:
            raise invalid_version(text)
        return number

    @property
    def schema_id(self) -> int:
        """The schema id in the path. Raises Refusal."""
        number = _number(str(self.path["id"]))
        if number is None:
            raise no_schema()
        return number


class SentSchema(msgspec.Struct, frozen=True):
    """The body of a request with a schema. Unsupported fields must be absent or empty."""

    schema: str
    schemaType: str | None = None  # noqa: N815 - the name in the request
    references: tuple[Reference, ...] | None = None
    metadata: None = None
    ruleSet: None = None  # noqa: N815
    id: Literal[-1, 0] | None = None
    version: Literal[-1, 0] | None = None
    schemaTagsToAdd: tuple[()] | None = None  # noqa: N815
    schemaTagsToRemove: tuple[()] | None = None  # noqa: N815


Act = Callable[[Question], object]


class Routes:
    def __init__(self, topic: SchemasTopic) -> None:
        self._topic = topic

    def routes(self) -> list[ServedRoute]:
        subject, version = "/subjects/{subject:path}", "/subjects/{subject:path}/versions/{version}"
        schema = "/schemas/ids/{id}"
        return [
            _route("GET", "/", READ, lambda _: {}),
            _route("GET", "/contexts", READ, lambda asked: asked.page(["."]), *PAGE),
            _route("GET", "/subjects", READ, self.subjects, "subjectPrefix", "deleted", "deletedOnly", *PAGE),
            _route("GET", f"{version}/schema", READ, self.text_of_version, "deleted", "format", is_raw=True),
            _route("GET", f"{version}/referencedby", READ, self.referenced_by, "deleted", *PAGE),
            _route("GET", version, READ, self.version, "deleted", "format"),
            _route("DELETE", version, DELETE, self.delete_version, "permanent"),
            _route(
                "GET", f"{subject}/versions", READ, self.versions, "deleted", "deletedOnly", "deletedAsNegative", *PAGE
            ),
            _route("POST", f"{subject}/versions", WRITE, self.register),
            _route("POST", subject, READ, self.look_up, "deleted", "format"),
            _route("DELETE", subject, DELETE, self.delete_subject, "permanent"),
            _route("GET", "/schemas", READ, self.schemas, "subjectPrefix", "deleted", "latestOnly", *PAGE),
            _route("GET", "/schemas/types", READ, lambda _: list(KINDS)),
            _route("GET", f"{schema}/schema", READ, self.text_of_id, "subject", "format", is_raw=True),
            _route("GET", f"{schema}/subjects", READ, self.subjects_of_id, "subject", "deleted", *PAGE),
            _route("GET", f"{schema}/versions", READ, self.versions_of_id, "subject", "deleted", *PAGE),
            _route("GET", schema, READ, self.schema_of_id, "subject", "format"),
            _route("POST", "/compatibility" + version, READ, self.compatibility, "verbose"),
            _route("POST", f"/compatibility{subject}/versions", READ, self.compatibility, "verbose"),
            _route("GET", "/config", READ, self.level_of_all, "defaultToGlobal"),
            _route("PUT", "/config", SET_LEVEL, self.set_level),
            _route("DELETE", "/config", SET_LEVEL, self.delete_level),
            _route("GET", "/config/{subject:path}", READ, self.level, "defaultToGlobal"),
            _route("PUT", "/config/{subject:path}", SET_LEVEL, self.set_level),
            _route("DELETE", "/config/{subject:path}", SET_LEVEL, self.delete_level),
            _route("GET", "/mode", READ, self.mode_of_all, "defaultToGlobal"),
            _route("GET", "/mode/{subject:path}", READ, self.mode, "defaultToGlobal"),
        ]

    # -- subjects

    def subjects(self, asked: Question) -> object:
        prefix = asked.query.get("subjectPrefix", "").removeprefix(ALL_CONTEXTS)
        found = self._topic.look(
            lambda state: state.subjects(prefix, deleted=asked.says("deleted"), deleted_only=asked.says("deletedOnly"))
        )
        return asked.page(asked.rights.readable(found))

    def versions(self, asked: Question) -> object:
        deleted, only = asked.says("deleted"), asked.says("deletedOnly")

        def find(state: RegistryState) -> list[int]:
            state.versions_there(asked.subject, deleted=deleted or only)
            everything = state.versions(asked.subject, deleted=True)
            if asked.says("deletedAsNegative"):
                return [-value.version if value.deleted else value.version for value in everything]
            return [value.version for value in everything if (value.deleted if only else deleted or not value.deleted)]

        return asked.page(self._topic.look(find))

    def version(self, asked: Question) -> object:
        return self._topic.look(lambda state: _told(state, self._version(state, asked), asked))

    def text_of_version(self, asked: Question) -> object:
        return self._topic.look(lambda state: _text(state, self._version(state, asked), asked))

    def referenced_by(self, asked: Question) -> object:
        def ids(state: RegistryState) -> list[int]:
            value = state.version(asked.subject, asked.version, deleted=True)
            referring = state.referring_to(value.subject, value.version, deleted=asked.says("deleted"))
            return sorted({one.id for one in referring if asked.rights.may(READ, one.subject)})

        return asked.page(self._topic.look(ids))

    def _version(self, state: RegistryState, asked: Question) -> SchemaValue:
        return state.version(asked.subject, asked.version, deleted=asked.says("deleted"))

    def register(self, asked: Question) -> object:
        def decide(state: RegistryState) -> tuple[Sequence[Any], int]:
            return decisions.decide_register(state, asked.subject, _sent_schema(state, asked))

        return {"id": self._topic.write(decide)}

    def look_up(self, asked: Question) -> object:
        def find(state: RegistryState) -> object:
            state.versions_there(asked.subject, deleted=asked.says("deleted"))
            schema = _sent_schema(state, asked)
            value = decisions.find_registered(state, asked.subject, schema, deleted=asked.says("deleted"))
            return _told(state, value, asked)

        return self._topic.look(find)

    def delete_subject(self, asked: Question) -> object:
        _require_deletion(asked)
        return self._topic.write(
            lambda state: decisions.decide_delete_subject(state, asked.subject, permanent=asked.says("permanent"))
        )

    def delete_version(self, asked: Question) -> object:
        _require_deletion(asked)
        return self._topic.write(
            lambda state: decisions.decide_delete_version(
                state, asked.subject, asked.version, permanent=asked.says("permanent")
            )
        )

    # -- schemas, all and by id

    def schemas(self, asked: Question) -> object:
        prefix, deleted = asked.query.get("subjectPrefix", "").removeprefix(ALL_CONTEXTS), asked.says("deleted")

        def find(state: RegistryState) -> list[SchemaValue]:
            readable = asked.rights.readable(state.subjects(prefix, deleted=deleted))
            each = (state.versions(subject, deleted=deleted) for subject in readable)
            return [value for found in each for value in (found[-1:] if asked.says("latestOnly") else found)]

        return self._topic.look(lambda state: [_told(state, value, asked) for value in asked.page(find(state))])

    def schema_of_id(self, asked: Question) -> object:
        def find(state: RegistryState) -> dict[str, object]:
            value = self._of_id(state, asked)
            return {"schema": _text(state, value, asked), **_kind_and_references(value)}

        return self._topic.look(find)

    def text_of_id(self, asked: Question) -> object:
        return self._topic.look(lambda state: _text(state, self._of_id(state, asked), asked))

    def _of_id(self, state: RegistryState, asked: Question) -> SchemaValue:
        """`subject` only selects a context, and there is only one: the schema of any subject is the right one."""
        _ = asked.filter
        return asked.rights.readable_places(state.of_id(asked.schema_id))[0]

    def subjects_of_id(self, asked: Question) -> object:
        return asked.page(sorted({value.subject for value in self._places(asked)}))

    def versions_of_id(self, asked: Question) -> object:
        return asked.page([{"subject": value.subject, "version": value.version} for value in self._places(asked)])

    def _places(self, asked: Question) -> list[SchemaValue]:
        """The versions with the schema of that id, in the requested subject."""
        found = self._topic.look(lambda state: state.of_id(asked.schema_id, deleted=asked.says("deleted")))
        return [value for value in asked.rights.readable_places(found) if asked.filter in ("", value.subject)]

    # -- compatibility

    def compatibility(self, asked: Question) -> object:
        """Compares with one version, or with those that the level names."""

        def find(state: RegistryState) -> list[str]:
            level = state.level_in_force(asked.subject)
            if "version" in asked.path:
                against = [state.version(asked.subject, asked.version)]
            else:
                against = decisions.versions_before(state, asked.subject)
            return decisions.find_problems(state, _sent_schema(state, asked), against, level)

        problems = self._topic.look(find)
        return {"is_compatible": not problems, **({"messages": problems} if asked.says("verbose") else {})}

    def level_of_all(self, _: Question) -> object:
        return {"compatibilityLevel": self._topic.look(lambda state: state.level(None))}

    def level(self, asked: Question) -> object:
        level = self._topic.look(
            lambda state: (state.level_in_force if asked.says("defaultToGlobal") else state.level)(asked.subject)
        )
        if level is None:
            raise no_level(asked.subject)
        return {"compatibilityLevel": level}

    def set_level(self, asked: Question) -> object:
        subject, level = _subject_or_all(asked), asked.body.get("compatibility")
        _refuse_others("of the request", asked.body, ("compatibility",))
        if not isinstance(level, str):
            raise invalid_level(level)
        return {"compatibility": self._topic.write(lambda state: decisions.decide_level(state, subject, level))}

    def delete_level(self, asked: Question) -> object:
        subject = _subject_or_all(asked)
        level = self._topic.write(lambda state: decisions.decide_delete_level(state, subject))
        return {"compatibilityLevel": level}

    def mode_of_all(self, _: Question) -> object:
        return {"mode": self._topic.look(lambda state: state.mode(None))}

    def mode(self, asked: Question) -> object:
        mode = self._topic.look(
            lambda state: (state.mode_in_force if asked.says("defaultToGlobal") else state.mode)(asked.subject)
        )
        if mode is None:
            raise no_mode(asked.subject)
        return {"mode": mode}


def _require_deletion(asked: Question) -> None:
    """Raises Refusal."""
    asked.rights.require(DELETE_FOR_GOOD if asked.says("permanent") else DELETE, asked.subject)


def _subject(name: str) -> str:
    """Raises Refusal for an invalid subject name."""
    if not name or name.startswith(":") or re.search(r"[\x00-\x1f\x7f]", name):
        raise invalid_subject(name)
    return name


def _refuse_others(where: str, given: Mapping[str, object], served: Sequence[str]) -> None:
    """Raises Refusal for an unsupported name, unless its value requests nothing."""
    for name, value in given.items():
        if name not in served and value not in (None, False, "") and str(value).lower() != "false":
            raise not_served(name, where)


def _number(text: str) -> int | None:
    """A number of 31 bits, as ids and versions are; None for any other text."""
    number = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None
    return number if number is not None and number < 2**31 else None


def _subject_or_all(asked: Question) -> str | None:
    return asked.subject if "subject" in asked.path else None


def _sent_schema(state: RegistryState, asked: Question) -> Schema:
    """Raises Refusal."""
    try:
        sent = msgspec.convert(asked.body, SentSchema)
    except msgspec.ValidationError as error:
        raise invalid_schema(str(error)) from error
    for reference in sent.references or ():
        asked.rights.require(READ, reference.subject)
    return decisions.parse_schema(state, sent.schemaType or AVRO, sent.schema, sent.references or ())


def _told(state: RegistryState, value: SchemaValue, asked: Question) -> dict[str, object]:
    return {
        "subject": value.subject,
        "version": value.version,
        "id": value.id,
        **_kind_and_references(value),
        "schema": _text(state, value, asked),
    }


def _kind_and_references(value: SchemaValue) -> dict[str, object]:
    """Omits the kind for Avro, as clients expect."""
    kind = {} if schema_of(value).kind == AVRO else {"schemaType": value.schemaType}
    return {**kind, **({"references": value.references} if value.references else {})}


def _text(state: RegistryState, value: SchemaValue, asked: Question) -> str:
    """`format=serialized`: the descriptor of a Protobuf schema. Raises Refusal."""
    form, schema = asked.query.get("format", ""), schema_of(value)
    if not form:
        return schema.text
    if form != "serialized" or schema.kind != PROTOBUF:
        raise invalid_schema(f"format={form} of {schema.kind} is not served")
    try:
        return serialized(decisions.whole_schema(state, schema))
    except SchemaError as error:
        raise invalid_schema(str(error)) from error


# --- HTTP ---


def _route(
    method: str, path: str, operation: Operation, act: Act, *parameters: str, is_raw: bool = False
) -> ServedRoute:
    """`operation`: the required right on the subject in the path. In a path without one, setting requires the right for
    all subjects, reading for any. `parameters`: the supported ones. `is_raw`: the response is a schema's own text."""

    async def endpoint(request: Request) -> Response:
        try:
            _refuse_others(f"of {method} {path}", request.query_params, parameters)
            body = await _body(request) if method in ("POST", "PUT") else {}
            rights = Rights.of(person_of(request))
            asked = Question(request.path_params, dict(request.query_params), rights, body)
            found = await run_in_threadpool(act, asked)
        except Refusal as refusal:
            return error(refusal.code, str(refusal))
        return Response(found if is_raw else msgspec.json.encode(found), media_type=CONTENT)

    subject = "subject" if "{subject:path}" in path else ANY_SUBJECT if operation is READ else None
    return ServedRoute(path, endpoint, needs=operation.role, methods=[method], subject=subject)


async def _body(request: Request) -> dict[str, Any]:
    """Raises Refusal."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MAX_BODY:
            raise Refusal(42209, f"the schema is larger than {MAX_BODY} bytes")
    try:
        body = msgspec.json.decode(found)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(42201, f"the request is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal(42201, "the request is no JSON object")
    return body


async def not_found(request: Request, _: Exception) -> Response:
    return error(404, f"there is no {request.method} {request.url.path}")


def error(code: int, message: str) -> Response:
    """`code`: its first three digits are the status. A person without the right gets Confluent's code."""
    code = FORBIDDEN if code == 403 else code
    answer = msgspec.json.encode({"error_code": code, "message": message})
    return Response(answer, int(str(code)[:3]), media_type=CONTENT)
