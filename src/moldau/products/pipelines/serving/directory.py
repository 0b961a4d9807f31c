"""Watches a directory of pipeline files: which are valid, and which changed since the last look."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import changed_facts
from moldau.products.pipelines.spec.conflicts import find_conflicts
from moldau.products.pipelines.spec.spec import PipelineSpec, load_spec

SUFFIXES = (".yaml", ".yml", ".py")

UNSEEN = (0, -2)
"""The time and size for a file that was not checked before it was read. No file has them, so it is read again."""

Stamp = tuple[tuple[Path, int, int], ...]


class Finding(msgspec.Struct, frozen=True):
    """A change of a file. `spec`: run this from now on. `refusal`: why the pipeline cannot be run as it is now; its
    current run continues. Neither: the file is gone. `is_same`: the file was written, or is no longer rejected, but the
    pipeline has not changed, so a current run need not be restarted."""

    file: Path
    spec: PipelineSpec | None = None
    refusal: str | None = None
    is_same: bool = False

    @property
    def is_gone(self) -> bool:
        return self.spec is None and self.refusal is None


class _Known(msgspec.Struct, frozen=True):
    """`spec`: the last valid one."""

    stamp: Stamp
    spec: PipelineSpec | None
    refusal: str | None


class SpecDirectory:
    """Ignores files whose names begin with a dot or an underscore, which are modules that pipelines share."""

    def __init__(self, directory: Path, parameters: Mapping[str, str], *, profile: str | None = None) -> None:
        """`parameters`, `profile`: as in `load_spec`."""
        self._directory = directory
        self._parameters = parameters
        self._profile = profile
        self._known: dict[Path, _Known] = {}

    def look(self, busy: Collection[Path] = ()) -> Iterator[Finding]:
        """The changes since the last look, without those of `busy` files, which a later look finds. Reads a rejected
        pipeline again at each look, others when one of their files changed. Yields nothing while the directory cannot
        be read (it is being replaced, or a file server is unavailable); current runs continue."""
        try:
            paths = list(self._directory.iterdir())
        except OSError:
            return
        files = sorted(path for path in paths if path.suffix in SUFFIXES and path.name[:1] not in "._")
        for file in [file for file in self._known if file not in files and file not in busy]:
            del self._known[file]
            yield Finding(file)
        for file in files:
            if file in busy:
                continue
            before = self._known.get(file)
            if before is None or before.refusal is not None or before.stamp != _stamp([one[0] for one in before.stamp]):
                yield from self._read(file, before or _Known((), None, None))

    def _read(self, file: Path, before: _Known) -> Iterator[Finding]:
        # taken before the pipeline is read, so that the next look sees changes during the read
        old = {one[0]: one for one in _stamp([file, *(one[0] for one in before.stamp)])}
        try:
            spec = load_spec(file, self._parameters, profile=self._profile)
            refusal = self._refusal(file, spec)
        except MoldauError as error:
            spec, refusal = None, str(error)
        files = spec.files if spec else (file,)
        stamp = tuple(old.get(one, (one, *UNSEEN)) for one in files)
        if spec is None or refusal is not None:
            self._known[file] = _Known(stamp, before.spec, refusal)
            if refusal != before.refusal:
                yield Finding(file, refusal=refusal)
            return
        self._known[file] = _Known(stamp, spec, None)
        is_same = before.spec is not None and _meaning(spec) == _meaning(before.spec)
        is_written = all(one[1:] != UNSEEN for one in before.stamp)
        if not is_same or is_written or before.refusal is not None:
            yield Finding(file, spec, is_same=is_same)

    def _refusal(self, file: Path, spec: PipelineSpec) -> str | None:
        """Why a valid pipeline is not run. Raises CheckpointError."""
        others = {one: known.spec for one, known in self._known.items() if one != file and known.spec is not None}
        conflicts = find_conflicts({**others, file: spec})
        if conflicts:
            return conflicts[0]
        for query in spec.queries:
            changed = changed_facts(query.checkpoint, query.step.facts())
            if changed:
                keys = "`, `".join(changed)
                return f"{file}: `{keys}` changed since its checkpoint was begun: undo it, or `moldau pipeline reset`"
        return None


def _stamp(files: tuple[Path, ...] | list[Path]) -> Stamp:
    found = []
    for file in files:
        try:
            stat = file.stat()
            found.append((file, stat.st_mtime_ns, stat.st_size))
        except OSError:
            found.append((file, 0, -1))
    return tuple(found)


def _meaning(spec: PipelineSpec) -> PipelineSpec:
    """Equal for two pipelines that do the same. Functions are compared by their source text, in the plan."""
    return msgspec.structs.replace(spec, files=(), functions={})
