"""Generates the decoder of one message in one version as straight-line Python.

One `unpack_from` reads neighbouring fields of fixed size and the first byte of the length after them. Arrays become
inline loops. The generated `decode(data, position)` returns the message and the position after it. It raises
ProtocolError, or `struct.error` or IndexError if the bytes end too early.
"""

from __future__ import annotations

from struct import Struct, calcsize
from typing import Final

import msgspec

from moldau.errors import invariant
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
    has_views,
    minimal_size,
)

_UNPACK_TABLES: Final[dict[str, runtime.UnpackTable]] = {}


def decoder_source(
    cls: type[msgspec.Struct], info: MessageInfo, version: int, pause: tuple[str, ...] = ()
) -> tuple[str, dict[str, object]]:
    """The source of `decode` and the names that it needs. With `pause` it is a generator, and takes a memoryview."""
    is_view = bool(pause) or has_views(cls)
    writer = _DecoderWriter(version, is_flexible=info.is_flexible(version), is_view=is_view, pause=pause)
    return writer.write_message(cls)


class _DecoderWriter:
    def __init__(self, version: int, *, is_flexible: bool, is_view: bool, pause: tuple[str, ...]) -> None:
        self._version = version
        self._pause = pause
        self._is_flexible = is_flexible
        self._is_view = is_view
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0
        self._run: list[tuple[str, str]] = []
        self._names: dict[str, object] = {
            "bad_field": runtime.bad_field,
            "finish_uvarint": runtime.finish_uvarint,
            "finish_string_length": runtime.finish_string_length,
            "decode_text": runtime.decode_text,
            "skip_tagged_fields": runtime.skip_tagged_fields,
            "tagged_field_count": runtime.tagged_field_count,
            "tagged_field": runtime.tagged_field,
        }

    def write_message(self, cls: type[msgspec.Struct]) -> tuple[str, dict[str, object]]:
        self._line("limit = len(data)")
        result = self._struct(cls, cls.__name__)
        self._line(f"return {result}, position")
        head = ["def decode(data, position):", *(runtime.PAUSE_BEGIN if self._pause else ())]
        return "\n".join([*head, *self._lines]) + "\n", self._names

    # -- lines, names and runs of fixed fields

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _new(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def _share(self, stem: str, value: object) -> str:
        """A global name of the generated function for `value`."""
        for name, known in self._names.items():
            if known is value:
                return name
        name = stem if stem not in self._names else self._new(stem)
        self._names[name] = value
        return name

    def _end_run(self) -> None:
        """Reads the fields collected so far."""
        run, self._run = self._run, []
        if not run:
            return
        layout = ">" + "".join(code for code, _ in run)
        size = calcsize(layout)
        if layout == ">B":
            self._line(f"{run[0][1]} = data[position]")
        else:
            unpack_name = "unpack_" + "".join(code for code, _ in run).replace("?", "t")
            if unpack_name not in self._names:
                self._names[unpack_name] = Struct(layout).unpack_from
            targets = ", ".join(target for _, target in run)
            self._line(f"{targets}{',' if len(run) == 1 else ''} = {unpack_name}(data, position)")
        self._line(f"position += {size}")

    def _length(self, stem: str, *, code: str, finish: str = "finish_uvarint") -> str:
        """Reads a length: a varint (the value plus one) in flexible versions, else of the `struct` code given."""
        name = self._new(stem)
        self._run.append(("B" if self._is_flexible else code, name))
        self._end_run()
        if self._is_flexible:
            self._line(f"if {name} > 127: {name}, position = {finish}(data, position, {name})")
        return name

    # -- values

    def _value(self, field_type: FieldType, target: str, label: str, *, is_nullable: bool = False) -> None:
        """Reads one value into the variable `target`. A primitive may stay in the open run."""
        if isinstance(field_type, Primitive):
            self._run.append((field_type.format, target))
        elif isinstance(field_type, Text):
            self._string(target, label, is_nullable=is_nullable)
        elif isinstance(field_type, Bytes):
            self._bytes(field_type, target, label, is_nullable=is_nullable)
        elif isinstance(field_type, Array):
            self._array(field_type.element, target, label, is_nullable=is_nullable)
        else:
            self._nested(field_type, target, label, is_nullable=is_nullable)

    def _string(self, target: str, label: str, *, is_nullable: bool) -> None:
        length = self._length("size", code="h", finish="finish_string_length")
        text = (
            'str(data[position:end], "utf-8", "replace")'
            if self._is_view
            else ('data[position:end].decode("utf-8", "replace")')
        )
        text += f" if {length} <= {runtime.MAX_SURE_BYTES} else decode_text(data[position:end])"
        self._sized(length, target, label, text, is_nullable=is_nullable)

    def _bytes(self, field_type: Bytes, target: str, label: str, *, is_nullable: bool) -> None:
        length = self._length("size", code="i")
        slice_text = "data[position:end]" if field_type.is_view or not self._is_view else "bytes(data[position:end])"
        self._sized(length, target, label, slice_text, is_nullable=is_nullable)

    def _sized(self, length: str, target: str, label: str, value: str, *, is_nullable: bool) -> None:
        """The common end of strings and byte strings: null, the bound, the slice."""
        is_null = f"not {length}" if self._is_flexible else f"{length} < 0"
        if is_nullable:
            self._line(f"if {is_null}: {target} = None")
            self._line("else:")
            self._indent += 1
        else:
            self._line(f"if {is_null}: raise bad_field({label!r}, 'null')")
        self._line(f"end = position + {length}" + (" - 1" if self._is_flexible else ""))
        self._line(f"if end > limit: raise bad_field({label!r}, 'longer than the rest')")
        self._line(f"{target} = {value}")
        self._line("position = end")
        if is_nullable:
            self._indent -= 1

    def _array(self, element: FieldType, target: str, label: str, *, is_nullable: bool) -> None:
        count = self._length("count", code="i")
        self._line(f"{count} -= 1") if self._is_flexible else None
        if is_nullable:
            self._line(f"if {count} == -1: {target} = None")
            self._line("else:")
            self._indent += 1
        size = minimal_size(element, self._version, is_flexible=self._is_flexible)
        invariant(size > 0, f"{label}: elements of no size cannot be bounded")
        most = runtime.MAX_ELEMENTS
        self._line(f"if {count} < 0 or {count} * {size} > limit - position or {count} > {most}:")
        self._line(f"    raise bad_field({label!r}, f'array of {{{count}}}')")
        if isinstance(element, Primitive) and element.format in "bhiqHd":
            table = self._share(
                f"unpack_array_{element.format}",
                _UNPACK_TABLES.setdefault(element.format, runtime.UnpackTable(element.format)),
            )
            self._line(f"{target} = {table}[{count}](data, position)")
            self._line(f"position += {count} * {element.size}" if element.size > 1 else f"position += {count}")
        else:
            self._array_loop(element, target, label, count)
        if is_nullable:
            self._indent -= 1

    def _array_loop(self, element: FieldType, target: str, label: str, count: str) -> None:
        items = self._new("items")
        self._line(f"{items} = []")
        self._line(f"for _ in range({count}):")
        self._indent += 1
        if isinstance(element, Nested):
            item = self._struct(element.struct, label)
        else:
            item = self._new("item")
            self._value(element, item, label)
            self._end_run()
        self._line(f"{items}.append({item})")
        for line in self._pause:
            self._line(line)
        self._indent -= 1
        self._line(f"{target} = tuple({items})")

    def _nested(self, field_type: Nested, target: str, label: str, *, is_nullable: bool) -> None:
        if not is_nullable:
            self._line(f"{target} = {self._struct(field_type.struct, label)}")
            return
        marker = self._new("marker")
        self._run.append(("b", marker))
        self._end_run()
        self._line(f"if {marker} < 0: {target} = None")
        self._line("else:")
        self._indent += 1
        self._line(f"{target} = {self._struct(field_type.struct, label)}")
        self._indent -= 1

    # -- structs

    def _struct(self, cls: type[msgspec.Struct], label: str) -> str:
        """Reads a struct. Returns the expression that creates it."""
        arguments: list[str] = []
        tagged: list[tuple[Field, str]] = []
        for field in fields_of(cls):
            if not field.is_present(self._version):
                arguments.append(self._default(cls, field))
                continue
            target = self._new(field.name)
            arguments.append(target)
            if field.is_tagged(self._version):
                tagged.append((field, target))
            else:
                nullable = field.is_nullable(self._version)
                self._value(field.type, target, f"{label}.{field.name}", is_nullable=nullable)
        if self._is_flexible:
            count = self._new("tags")
            self._run.append(("B", count))
            self._end_run()
            self._tagged_fields(cls, label, count, tagged)
        self._end_run()
        return f"{self._share(cls.__name__, cls)}({', '.join(arguments)})"

    def _default(self, cls: type[msgspec.Struct], field: Field) -> str:
        if field.default is None or isinstance(field.default, bool | int | str | bytes) or field.default == ():
            return repr(field.default)
        return self._share(f"{cls.__name__}_{field.name}_default", field.default)

    def _tagged_fields(
        self, cls: type[msgspec.Struct], label: str, count: str, tagged: list[tuple[Field, str]]
    ) -> None:
        if not tagged:
            self._line(f"if {count}: position = skip_tagged_fields(data, position, {count})")
            return
        for field, target in tagged:
            self._line(f"{target} = {self._default(cls, field)}")
        self._line(f"if {count}:")
        self._indent += 1
        tag, tag_end = self._new("tag"), self._new("tag_end")
        self._line(f"{count}, position = tagged_field_count(data, position, {count})")
        self._line(f"for _ in range({count}):")
        self._indent += 1
        self._line(f"{tag}, position, {tag_end} = tagged_field(data, position)")
        for index, (field, target) in enumerate(tagged):
            self._line(f"{'el' if index else ''}if {tag} == {field.wire.tag}:")
            self._indent += 1
            self._value(field.type, target, f"{label}.{field.name}", is_nullable=field.is_nullable(self._version))
            self._end_run()
            self._line(f"if position != {tag_end}: raise bad_field({label + '.' + field.name!r}, 'wrong size')")
            self._indent -= 1
        self._line("else:")
        self._line(f"    position = {tag_end}")
        self._indent -= 2
