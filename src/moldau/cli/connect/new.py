"""`moldau connect new`: writes a package with a connector, its test and its page.

Lines between `#!source` or `#!sink` and `#!end` of a template are for that kind alone.
"""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from string import Template

from moldau.cli.arguments import Subparsers, not_empty
from moldau.cli.output import CommandError

KINDS = ("source", "sink", "both")
_TEMPLATES = Path(__file__).with_name("package")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    new = verbs.add_parser(
        "new",
        help="write a package with a connector of your own",
        description="Writes the folder NAME: a package with a connector that runs, its test and its page.",
        examples=("moldau connect new tides", "moldau connect new tides --kind sink"),
    )
    new.add_argument("name", metavar="NAME", help="of the connector: lower-case words with hyphens")
    new.add_argument("--kind", choices=KINDS, default="source", help="what the connector is (default: source)")
    new.add_argument("--folder", type=not_empty, metavar="PATH", help="the folder to make (default: NAME)")
    new.set_defaults(run=write_package)


def write_package(arguments: argparse.Namespace) -> int:
    name = _checked(arguments.name)
    folder = Path(arguments.folder or name)
    if folder.exists():
        raise CommandError(f"{folder} exists: nothing is written")
    module, class_name = _names(name)
    kinds = {"source", "sink"} if arguments.kind == "both" else {arguments.kind}
    words = {"name": name, "module": module, "class_name": class_name, **_imports(kinds)}
    files = {
        "pyproject.toml": "pyproject.toml",
        f"{module}.py": "connector.py",
        f"test_{module}.py": "test_connector.py",
        "README.md": "README.md",
    }
    texts = {path: _text(template, kinds, words) for path, template in files.items()}
    try:
        folder.mkdir(parents=True)
        for path, text in texts.items():
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from error
    _tell(folder, class_name, module, kinds)
    return 0


def _imports(kinds: set[str]) -> dict[str, str]:
    """Imports of several names in one line."""
    is_source, is_sink = "source" in kinds, "sink" in kinds
    return {
        "collections": "Iterator, Mapping, Sequence" if is_source else "Iterator, Mapping",
        "row_type": "Row, StructType" if is_sink else "StructType",
        "testing": ", ".join(["ConnectorTask, read_all"] * is_source + ["write_all"] * is_sink),
    }


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name!r} is no name of a connector: lower-case words and digits with hyphens, as my-tides")
    return name


def _names(name: str) -> tuple[str, str]:
    """The module and the class. Raises CommandError for a name that a module or a class of the package cannot have."""
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or find_spec(module) is not None:
        raise CommandError(f"{module} is a module of Python or an installed package: choose another name")
    class_name = "".join(word.capitalize() for word in name.split("-"))
    if re.search(rf"\b{class_name}\b", _template("connector.py") + _template("test_connector.py")):
        raise CommandError(f"a class of the package has the name {class_name} already: choose another name")
    return module, class_name


def _template(name: str) -> str:
    return (_TEMPLATES / f"{name}.txt").read_text("utf-8")


def _text(template: str, kinds: set[str], words: dict[str, str]) -> str:
    text = Template("\n".join(_lines(_template(template), kinds)) + "\n").substitute(words)
    return text.replace('"""\n', '"""', 1) if text.startswith('"""\n') else text


def _lines(template: str, kinds: set[str]) -> Iterator[str]:
    block = ""
    for line in template.splitlines():
        if line.startswith("#!"):
            block = line.removeprefix("#!")
            block = "" if block == "end" else block
        elif not block or block in kinds:
            yield line


def _tell(folder: Path, class_name: str, module: str, kinds: set[str]) -> None:
    print(f"{folder} is written. Next:")
    print(f"  cd {folder}")
    print("  pytest    # its tests, with a broker in the process")
    for rows in [""] * ("source" in kinds) + [" --rows ROWS.jsonl"] * ("sink" in kinds):
        print(f"  moldau connect test {module}:{class_name} directory=/tmp/{module}{rows}")
