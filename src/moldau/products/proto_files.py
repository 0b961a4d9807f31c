"""`.proto` files compiled to descriptors by Google's compiler."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from moldau.errors import MoldauError
from moldau.extras import require_extra

COMPILES_WITHIN_S = 60


class ProtoError(MoldauError):
    """The text does not compile; the message says where and why."""


def compile_protos(texts: Mapping[str, str], main: str, directory: Path | None = None) -> tuple[bytes, ...]:
    """`main` and all that it imports, from `texts` by their names or below `directory`: serialized
    FileDescriptorProtos, each behind those that it needs. Raises ProtoError."""
    from google.protobuf import descriptor_pb2

    require_extra("a .proto", "protobuf", ("grpc_tools",))
    with tempfile.TemporaryDirectory(prefix="moldau-proto-") as scratch:
        for name, text in texts.items():
            path = Path(scratch, name).resolve()
            if not path.is_relative_to(Path(scratch).resolve()):
                raise ProtoError(f"{name} is no name that a schema can import")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        out = Path(scratch) / ".descriptors"
        roots = [f"-I{root}" for root in (scratch, directory) if root]
        words = [sys.executable, "-m", "grpc_tools.protoc", *roots, "--include_imports", f"--descriptor_set_out={out}"]
        told = subprocess.run([*words, main], capture_output=True, text=True, check=False, timeout=COMPILES_WITHIN_S)
        if told.returncode:
            errors = [line.replace(f"{scratch}/", "") for line in told.stderr.splitlines() if ": " in line]
            raise ProtoError(f"the schema does not compile: {errors[-1] if errors else told.stderr}")
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return tuple(file.SerializeToString() for file in found.file)
