"""`moldau machine NAME`: a secret for a program, and the settings with which services recognize it."""

from __future__ import annotations

import argparse
import os
import re

from moldau.cli.arguments import Subparsers, not_empty
from moldau.cli.output import CommandError
from moldau.transport.http_authorization import new_secret

ROLES = ("viewer", "editor", "admin")


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "machine",
        help="make a secret for a program that asks services over HTTP, such as Prometheus",
        description="Makes a secret of 256 random bits, and prints the lines that a service and a broker know the "
        "program by: they hold its hash alone. The program sends NAME and the secret by Basic, or the secret alone by "
        "Bearer.",
        examples=(
            "moldau machine prometheus --secret-file prometheus.secret",
            "moldau machine builder --role editor --subject orders-",
        ),
    )
    parser.add_argument("name", type=_name, metavar="NAME", help="letters, digits, . _ and -")
    parser.add_argument("--role", choices=ROLES, default=ROLES[0], help="in the services (default: %(default)s)")
    parser.add_argument(
        "--subject",
        type=not_empty,
        metavar="PREFIX",
        help="for a registry: the role applies only to subjects with this prefix",
    )
    parser.add_argument(
        "--secret-file", type=not_empty, metavar="FILE", help="write the secret there, readable by its owner alone"
    )
    parser.set_defaults(run=machine)


def machine(arguments: argparse.Namespace) -> int:
    secret, kept = new_secret()
    if arguments.secret_file is None:
        print(f"# the secret, which is not shown again\n{secret}\n")
    else:
        _write(arguments.secret_file, secret)
    role = f'role = "{arguments.role}"'
    if arguments.subject is not None:
        role = f'subjects = {{{_quoted(arguments.subject)} = "{arguments.role}"}}'
    print(f'# for the file of --login\n[machines."{arguments.name}"]\n{role}\nsha256 = "{kept}"\n')
    print(f"# for moldau.http.users.file of a broker\n{arguments.name}={kept}")
    return 0


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", text):
        raise argparse.ArgumentTypeError("has letters, digits, . _ and - alone, at most 100 of them")
    return text


def _quoted(text: str) -> str:
    """The text as a TOML string."""
    if not text.isprintable():
        raise CommandError("--subject must be printable")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write(path: str, secret: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error
