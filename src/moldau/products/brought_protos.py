"""`.proto` files that every schema registry has. Serializers do not list them as references.

Google's types (`google/protobuf`) come with its compiler, its common types with the package googleapis-common-protos.
Confluent's types are part of its interface, and this module contains them.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import util
from pathlib import Path

GOOGLES = "google/protobuf/"
"""The compiler contains the files of this folder."""
_COMMON = "google.type"
_CONFLUENTS = {
    "confluent/meta.proto": """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
    "confluent/type/variant.proto": """
syntax = "proto3";
package confluent.type;
message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
""",
}


@lru_cache(1)
def brought_protos() -> dict[str, str]:
    """The texts, keyed by the names by which schemas import them. Do not modify the result."""
    found = dict(_CONFLUENTS)
    common = util.find_spec(_COMMON)
    for folder in (common.submodule_search_locations if common is not None else None) or ():
        for path in sorted(Path(folder).glob("*.proto")):
            found[f"{_COMMON.replace('.', '/')}/{path.name}"] = path.read_text("utf-8")
    return found


def is_brought(name: str) -> bool:
    return name.startswith(GOOGLES) or name in brought_protos()
