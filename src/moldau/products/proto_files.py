"""`.proto` files compiled to descriptors by Google's compiler."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from moldau.errors import MoldauError
from moldau.extras import require_extra
from moldau.products.brought_protos import brought_protos

COMPILES_WITHIN_S = 60
LONGEST_NAME = 255
"""The maximum length in bytes."""
MAIN = "<schema>"
"""The name of a schema without one, also in errors: no other file that it imports has this name."""


class ProtoError(MoldauError):
    """The text does not compile; the message says where and why."""


def compile_protos(texts: Mapping[str, str], main: str, directory: Path | None = None) -> tuple[bytes, ...]:
    """Compiles `main` and all its imports: from `texts` by their names, from `directory`, or from the files that every
    registry has. Returns serialized FileDescriptorProtos, each after those that it needs. Raises ProtoError."""
    from google.protobuf import descriptor_pb2

    require_extra("a .proto", "protobuf", ("grpc_tools",))
    with tempfile.TemporaryDirectory(prefix="moldau-proto-") as scratch:
        given, brought, out = (Path(scratch, name) for name in ("given", "brought", "descriptors"))
        for folder, there in ((given, texts), (brought, brought_protos())):
            folder.mkdir()
            for name, text in there.items():
                _write(folder, name, text)
        roots = [f"-I{root}" for root in (given, directory, brought) if root]
        words = [sys.executable, "-m", "grpc_tools.protoc", *roots, "--include_imports", f"--descriptor_set_out={out}"]
        try:
            told = subprocess.run(
                [*words, main], capture_output=True, text=True, check=False, timeout=COMPILES_WITHIN_S
            )
        except subprocess.TimeoutExpired as error:
            raise ProtoError(f"the schema does not compile within {COMPILES_WITHIN_S} s") from error
        if told.returncode:
            errors = [line.replace(f"{given}/", "") for line in told.stderr.splitlines() if ": " in line]
            raise ProtoError(f"the schema does not compile: {errors[-1] if errors else told.stderr}")
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return tuple(file.SerializeToString() for file in found.file)


def _write(folder: Path, name: str, text: str) -> None:
    """Raises ProtoError for an invalid file name or content."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise ProtoError(f"{name!r} is no name that a schema can import")
    if len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME:
        raise ProtoError(f"the name {name[:50]!r}... is longer than {LONGEST_NAME} bytes")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ProtoError(f"{name!r} is the name of a file and of a folder") from error
    except ValueError as error:  # a NUL, or half of a surrogate pair
        raise ProtoError(f"{name!r} has a character that no file can have: {error}") from error
