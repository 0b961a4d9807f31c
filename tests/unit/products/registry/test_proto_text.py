"""Descriptors as text: compiling the text gives the same meaning."""

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


OWN_OPTIONS = """
syntax = "proto3";
import "google/protobuf/descriptor.proto";
message O { int32 a = 1; float f = 2; bytes b = 3; }
enum X { Q = 0; W = 1; }
extend google.protobuf.FieldOptions {
  O o = 50001; repeated X xs = 50002; string s = 50003; bool t = 50004; bytes bb = 50005; double d = 50006;
}
message M {
  string a = 1 [(o).a = 3, (o).f = inf, (o).b = "\\xff\\"", (xs) = W, (xs) = Q, (s) = "a'é\\n", (t) = true];
  string b = 2 [(bb) = "\\001", (d) = -1e300];
}
"""
OPTIONS_OF_REGISTRIES = """
syntax = "proto3";
package shop.confluent;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/datetime.proto";
option (.confluent.file_meta).doc = "prices";
message Price {
  option (.confluent.message_meta) = { doc: "one", tags: ["a", "b"] };
  .confluent.type.Decimal amount = 1 [(.confluent.field_meta) = {
    params: [{ key: "scale", value: "2" }, { key: "precision", value: "9" }]
  }];
  google.type.DateTime at = 2;
}
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


@pytest.mark.parametrize("text", [NEW, OLD, OWN_OPTIONS, OPTIONS_OF_REGISTRIES])
def test_a_text_its_descriptor_and_its_kept_text_are_one_schema(text: str) -> None:
    descriptor = base64.b64encode(compiled(text).SerializeToString()).decode()
    found = kept(WholeSchema(text))
    assert kept(WholeSchema(descriptor)) == kept(WholeSchema(found)) == found


def test_options_that_a_reference_defines_are_kept() -> None:
    options = OWN_OPTIONS.partition("message M")[0]
    text = 'syntax = "proto3"; import "options.proto"; message M { string a = 1 [(s) = "kept"]; }'
    references = (("options.proto", options),)
    descriptor = compile_protos({"options.proto": options, "a.proto": text}, "a.proto")[-1]
    found = kept(WholeSchema(text, references))
    assert '(.s) = "kept"' in found
    assert kept(WholeSchema(base64.b64encode(descriptor).decode(), references)) == found


def test_options_that_nothing_defines_are_refused() -> None:
    file = compiled(OWN_OPTIONS)
    del file.extension[:]
    with pytest.raises(SchemaError, match="it has options that no file which it imports defines"):
        kept(WholeSchema(base64.b64encode(file.SerializeToString()).decode()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto2"; message A { optional group B = 1 { } }', "the group b is not kept"),
        ('edition = "2023"; message A {}', "editions is not kept"),
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
