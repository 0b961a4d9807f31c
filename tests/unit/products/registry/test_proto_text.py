"""Descriptors as text: what is compiled from it means the same."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, MessageOptions

from moldau.products.proto_files import compile_protos
from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.kinds.proto_text import proto_text
from moldau.products.registry.core.kinds.protobuf import kept
from moldau.products.registry.core.refusals import SchemaError

ENTRY = DescriptorProto(name="XEntry", options=MessageOptions(map_entry=True))

NEW = """
syntax = "proto3";
package shop;  // a comment
import public "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
option java_package = "org.example.\\"shop\\"";
option optimize_for = SPEED;
message Order {
  option deprecated = true;
  message Line { string item = 1; }
  map<string, double> prices = 6;
  enum State { option allow_alias = true; NEW = 0; FRESH = 0; PAID = 1 [deprecated = true]; reserved 5 to max; }
  string user = 1 [json_name = "who"];
  optional string city = 3;
  google.protobuf.Timestamp at = 4;
  repeated Line lines = 5;
  oneof paid_by { string card = 7; google.protobuf.Int64Value cash = 8; }
  repeated int32 codes = 9 [packed = false];
  State state = 10;
  reserved 20, 30 to 40;
  reserved "old", "older";
}
message Other { Order.State state = 1; }
service Shop { rpc Buy (Order) returns (stream Other) { option idempotency_level = IDEMPOTENT; } }
"""
OLD = """
syntax = "proto2";
message Order {
  required int32 amount = 1 [default = -7];
  optional string name = 2 [default = "a\\"b"];
  optional bytes raw = 3 [default = "\\000\\377"];
  optional double ratio = 4 [default = inf];
  optional bool yes = 5 [default = true];
  optional Kind kind = 6 [default = LARGE];
  extensions 100 to max;
  extend Order { optional int32 inside = 101; }
}
enum Kind { SMALL = 0; LARGE = -1; }
extend Order { repeated string more = 100; }
"""


def compiled(text: str) -> FileDescriptorProto:
    return FileDescriptorProto.FromString(compile_protos({"a.proto": text}, "a.proto")[-1])


def by_number(file: FileDescriptorProto) -> FileDescriptorProto:
    for message in file.message_type:
        message.field.sort(key=lambda field: field.number)
    return file


@pytest.mark.parametrize("text", [NEW, OLD])
def test_a_descriptor_is_the_same_once_its_text_is_compiled(text: str) -> None:
    file = compiled(text)
    again = compiled(proto_text(file))
    assert proto_text(again) == proto_text(file)
    assert by_number(again) == by_number(file)


def test_a_text_and_its_descriptor_are_kept_as_one_schema() -> None:
    descriptor = base64.b64encode(compiled(NEW).SerializeToString()).decode()
    assert kept(WholeSchema(NEW)) == kept(WholeSchema(descriptor))


def test_the_kept_text_is_kept_as_it_is() -> None:
    text = kept(WholeSchema(NEW))
    assert kept(WholeSchema(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto2"; message A { optional group B = 1 { } }', "the group b is not kept"),
        ('edition = "2023"; message A {}', "editions is not kept"),
        (
            'syntax = "proto3"; import "google/protobuf/descriptor.proto"; message A { option (mine) = "a"; }'
            " extend google.protobuf.MessageOptions { string mine = 50000; }",
            "options of one's own are not kept",
        ),
    ],
)
def test_what_the_text_could_not_say_again_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        kept(WholeSchema(text))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (DescriptorProto(name="M", nested_type=[ENTRY]), "the entry XEntry of a map belongs to no field of M"),
        (
            DescriptorProto(name="M", field=[FieldDescriptorProto(name="f", number=1, type=5, oneof_index=3)]),
            "the field f is in a oneof that M does not have",
        ),
    ],
)
def test_a_descriptor_that_contradicts_itself_is_refused(message: DescriptorProto, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        proto_text(FileDescriptorProto(name="a.proto", syntax="proto3", message_type=[message]))
