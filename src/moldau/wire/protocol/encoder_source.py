"""Generates the encoder of one message in one version as straight-line Python.

One call packs neighbouring fields of fixed size, the length after them, and arrays of fixed elements among them. Arrays
of structs become inline loops. The generated `encode(m, write)` passes the parts of the message to `write` in order.
"""

from __future__ import annotations

from struct import Struct

import msgspec

from moldau.wire.protocol import runtime
from moldau.wire.protocol.schema import (
    Array,
    Bytes,
    Field,
    FieldType,
    MessageInfo,
    Nested,
    Primitive,
    Text,
    fields_of,
    is_error_message,
)


def encoder_source(
    cls: type[msgspec.Struct], info: MessageInfo, version: int, pause: tuple[str, ...] = ()
) -> tuple[str, dict[str, object]]:
    """The source of `encode` and the names that it needs. With `pause` it is a generator."""
    return _EncoderWriter(version, is_flexible=info.is_flexible(version), pause=pause).write_message(cls)


class _RunItem(msgspec.Struct, frozen=True):
    """One part of a run: a `struct` code and the expression for it; "*i" and its elements; "x" for a zero byte."""

    code: str
    expression: str = ""
    count: str = ""


class _EncoderWriter:
    def __init__(self, version: int, *, is_flexible: bool, pause: tuple[str, ...]) -> None:
        self._version = version
        self._pause = pause
        self._is_flexible = is_flexible
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0
        self._run: list[_RunItem] = []
        self._write = "write"
        self._names: dict[str, object] = {
            "bad_field": runtime.bad_field,
            "encode_uvarint": runtime.encode_uvarint,
            "encode_string_length": runtime.encode_string_length,
            "encode_error_message": runtime.encode_error_message,
            "join_tagged_fields": runtime.join_tagged_fields,
        }

    def write_message(self, cls: type[msgspec.Struct]) -> tuple[str, dict[str, object]]:
        self._struct(cls, "m", cls.__name__)
        self._end_run()
        head = ["def encode(m, write):", *(runtime.PAUSE_BEGIN if self._pause else ())]
        return "\n".join([*head, *self._lines, "    return"]) + "\n", self._names

    # -- lines, names and runs of fixed fields

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _new(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def _share(self, stem: str, value: object) -> str:
        """A global name of the generated function for `value`."""
        name = stem if stem not in self._names else self._new(stem)
        self._names[name] = value
        return name

    def _end_run(self) -> None:
        """Packs the fields collected so far."""
        run, self._run = self._run, []
        if run:
            self._line(f"{self._write}({self._pack(run)})")

    def _pack(self, run: list[_RunItem]) -> str:
        """The expression that packs a run."""
        codes = tuple(item.code for item in run)
        if set(codes) == {"x"}:
            return repr(bytes(len(run)))
        arguments: list[str] = []
        for item in run:
            if item.code.startswith("*"):
                arguments += (f"{item.count} + 1" if self._is_flexible else item.count, f"*{item.expression}")
            elif item.code != "x":
                arguments.append(item.expression)
        name = "pack_" + "".join(codes).replace("?", "t").replace("*", "n")
        counts = [item.count for item in run if item.count]
        if not counts:
            self._names.setdefault(name, Struct(">" + "".join(codes)).pack)
            return f"{name}({', '.join(arguments)})"
        self._names.setdefault(name, runtime.PackTable(codes, is_flexible=self._is_flexible))
        return f"{name}[{', '.join(counts)}]({', '.join(arguments)})"

    def _end_run_with_length(self, length: str, *, code: str, encode_long: str = "encode_uvarint") -> None:
        """Packs the run with a length at its end; a varint that needs more than one byte is written by itself."""
        if not self._is_flexible:
            self._run.append(_RunItem(code, length))
            self._end_run()
            return
        run = self._run
        self._run = []
        self._line(f"if {length} < 128: {self._write}({self._pack([*run, _RunItem('B', length)])})")
        self._line("else:")
        if run:
            self._line(f"    {self._write}({self._pack(run)})")
        self._line(f"    {self._write}({encode_long}({length}))")

    # -- values

    def _value(self, field_type: FieldType, expression: str, label: str, *, is_nullable: bool = False) -> None:
        if isinstance(field_type, Primitive):
            self._run.append(_RunItem(field_type.format, expression))
        elif isinstance(field_type, Text):
            self._string(expression, label, is_nullable=is_nullable)
        elif isinstance(field_type, Bytes):
            self._bytes(expression, is_nullable=is_nullable)
        elif isinstance(field_type, Array):
            self._array(field_type.element, expression, label, is_nullable=is_nullable)
        else:
            self._nested(field_type, expression, label, is_nullable=is_nullable)

    def _string(self, expression: str, label: str, *, is_nullable: bool) -> None:
        text, size = self._new("text"), self._new("size")
        encoded = "encode_error_message({})" if is_error_message(label) else "{}.encode()"
        if is_nullable:
            self._line(f"{text} = {expression}")
            self._line(f"if {text} is None: {text}, {size} = b'', {0 if self._is_flexible else -1}")
            self._line(f"else: {text} = {encoded.format(text)}; {size} = {self._plus_one(f'len({text})')}")
        else:
            self._line(f"{text} = {encoded.format(expression)}")
            self._line(f"{size} = {self._plus_one(f'len({text})')}")
        self._end_run_with_length(size, code="h", encode_long="encode_string_length")
        self._line(f"{self._write}({text})")

    def _bytes(self, expression: str, *, is_nullable: bool) -> None:
        value, size = self._new("value"), self._new("size")
        self._line(f"{value} = {expression}")
        if is_nullable:
            self._line(f"if {value} is None: {value}, {size} = b'', {0 if self._is_flexible else -1}")
            self._line(f"else: {size} = {self._plus_one(f'len({value})')}")
        else:
            self._line(f"{size} = {self._plus_one(f'len({value})')}")
        self._end_run_with_length(size, code="i")
        self._line(f"{self._write}({value})")

    def _plus_one(self, length: str) -> str:
        return f"{length} + 1" if self._is_flexible else length

    def _array(self, element: FieldType, expression: str, label: str, *, is_nullable: bool) -> None:
        items, count = self._new("items"), self._new("count")
        self._line(f"{items} = {expression}")
        if not is_nullable and isinstance(element, Primitive) and element.format in "bhiqHd":
            self._line(f"{count} = len({items})")
            self._run.append(_RunItem("*" + element.format, items, count))
            return
        if is_nullable:
            self._line(f"if {items} is None: {items}, {count} = (), {0 if self._is_flexible else -1}")
            self._line(f"else: {count} = {self._plus_one(f'len({items})')}")
        else:
            self._line(f"{count} = {self._plus_one(f'len({items})')}")
        self._end_run_with_length(count, code="i")
        item = self._new("item")
        self._line(f"for {item} in {items}:")
        self._indent += 1
        if isinstance(element, Nested):
            self._struct(element.struct, item, label)
        else:
            self._value(element, item, label)
        self._end_run()
        for line in self._pause:
            self._line(line)
        self._indent -= 1

    def _nested(self, field_type: Nested, expression: str, label: str, *, is_nullable: bool) -> None:
        value = self._new("value")
        self._line(f"{value} = {expression}")
        if not is_nullable:
            self._struct(field_type.struct, value, label)
            return
        self._end_run()
        self._line(f"if {value} is None: {self._write}(b'\\xff')")
        self._line("else:")
        self._indent += 1
        self._line(f"{self._write}(b'\\x01')")
        self._struct(field_type.struct, value, label)
        self._end_run()
        self._indent -= 1

    # -- structs

    def _struct(self, cls: type[msgspec.Struct], variable: str, label: str) -> None:
        tagged: list[Field] = []
        for field in fields_of(cls):
            expression = f"{variable}.{field.name}"
            field_label = f"{label}.{field.name}"
            if not field.is_present(self._version):
                if not field.wire.is_ignorable:
                    self._line(f"if {self._is_set(cls, field, expression)}:")
                    self._line(f"    raise bad_field({field_label!r}, 'not in version {self._version}')")
            elif field.is_tagged(self._version):
                tagged.append(field)
            else:
                self._value(field.type, expression, field_label, is_nullable=field.is_nullable(self._version))
        if not self._is_flexible:
            return
        if tagged:
            self._tagged_fields(cls, variable, label, sorted(tagged, key=lambda field: field.wire.tag or 0))
        else:
            self._run.append(_RunItem("x"))

    def _is_set(self, cls: type[msgspec.Struct], field: Field, expression: str) -> str:
        """The condition that a field differs from its default."""
        default = field.default
        if default is None or default is True or default is False:
            return f"{expression} is not {default}"
        if default in ((), "", b""):
            return f"{expression} is None or len({expression})"
        if isinstance(default, int | bytes):
            return f"{expression} != {default!r}"
        return f"{expression} != {self._share(f'{cls.__name__}_{field.name}_default', default)}"

    def _tagged_fields(self, cls: type[msgspec.Struct], variable: str, label: str, tagged: list[Field]) -> None:
        self._end_run()
        section = self._new("section")
        self._line(f"{section} = []")
        outer = self._write
        for field in tagged:
            expression = f"{variable}.{field.name}"
            body = self._new("body")
            self._line(f"if {self._is_set(cls, field, expression)}:")
            self._indent += 1
            self._line(f"{body} = []")
            self._write = f"{body}.append"
            self._value(field.type, expression, f"{label}.{field.name}", is_nullable=field.is_nullable(self._version))
            self._end_run()
            self._line(f"{section}.append(({field.wire.tag}, {body}))")
            self._indent -= 1
        self._write = outer
        self._line(f"{outer}(join_tagged_fields({section}) if {section} else b'\\x00')")
