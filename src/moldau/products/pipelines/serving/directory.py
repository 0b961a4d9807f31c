"""Looks at a directory of pipeline files: which are valid, and what changed since the last look."""

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
"""The time and size of a file that nobody had looked at before it was read: no look finds them, so it is read again."""

Stamp = tuple[tuple[Path, int, int], ...]


class Finding(msgspec.Struct, frozen=True):
    """What became of a file. `spec`: run this from now on. `refusal`: why the pipeline, as it stands there now, is not
    to be run: what runs of it goes on. Neither: the file is gone. `is_same`: the pipeline file means what it meant
    before, and the file was written, or is no longer refused: it need not be started again if it runs."""

    file: Path
    spec: PipelineSpec | None = None
    refusal: str | None = None
    is_same: bool = False

    @property
    def is_gone(self) -> bool:
        return self.spec is None and self.refusal is None


class _Known(msgspec.Struct, frozen=True):
    """`spec`: the last one that could be run."""

    stamp: Stamp
    spec: PipelineSpec | None
    refusal: str | None


class SpecDirectory:
    """Files whose names begin with a dot or an underscore are left out: modules that pipelines share."""

    def __init__(self, directory: Path, parameters: Mapping[str, str], *, profile: str | None = None) -> None:
        """`parameters`, `profile`: as of `load_spec`."""
        self._directory = directory
        self._parameters = parameters
        self._profile = profile
        self._known: dict[Path, _Known] = {}

    def look(self, busy: Collection[Path] = ()) -> Iterator[Finding]:
        """What is new, but of the files that are `busy`: a later look finds that. A pipeline that was refused is read
        again at each look, others when one of their files changed. Nothing while the directory cannot be read (another
        one takes its name, a file server is away): what runs of it goes on."""
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
        # taken before the pipeline is read: what is saved meanwhile has to be seen by the next look
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
        """Why it is not run, though each of its lines can be meant. Raises CheckpointError."""
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
    """What two pipelines that do the same have in common: functions are compared by their texts, in the plan."""
    return msgspec.structs.replace(spec, files=(), functions={})
