"""`moldau certs init|issue|show`: a small certificate authority in a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import STANDARD_INPUT, Subparsers, at_least_one, input_path, not_empty
from moldau.cli.output import CommandError, print_rows

if TYPE_CHECKING:
    from cryptography import x509

DEFAULT_FOLDER = "./moldau-certs"
DEFAULT_NAME = "Moldau authority"
MAX_FILE_BYTES = 1 << 20
MAX_DAYS = 36_500
_COLUMNS = ["file", "subject", "names", "issuer", "expires", "days"]


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("certs", help="a small certificate authority for TLS: init, issue, show")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    init = verbs.add_parser(
        "init",
        help="make an authority: a key that stays in its folder, and the certificate that clients trust",
        examples=("moldau certs init", 'moldau certs init --dir /etc/moldau/certs --name "Orders test"'),
    )
    _add_folder(init)
    init.add_argument("--name", type=not_empty, default=DEFAULT_NAME, help="its name (default: %(default)s)")
    _add_days(init, 3650)
    init.set_defaults(run=init_authority)

    issue = verbs.add_parser(
        "issue",
        help="issue a certificate for a node or a client: NAME.pem with its key",
        description="Issues a certificate for CN=NAME. A node needs each name and address by which it is dialled as a "
        "--host; a client needs none. The password of PKCS12 comes from a file, a variable, or standard input.",
        examples=(
            "moldau certs issue node-1 --host kafka.example --host 10.0.0.7",
            "moldau certs issue alice",
            "moldau certs issue alice --pkcs12 --password-file secret.txt",
        ),
    )
    issue.add_argument("name", help="the common name: the principal is User:CN=NAME by default")
    issue.add_argument(
        "--host", action="append", default=[], metavar="HOST", help="a name or address of the node; may be repeated"
    )
    _add_folder(issue)
    _add_days(issue, 365)
    issue.add_argument("--pkcs12", action="store_true", help="write NAME.p12 too, encrypted")
    password = issue.add_mutually_exclusive_group()
    password.add_argument(
        "--password-file", metavar="FILE", help="of --pkcs12: a file with the password; - is standard input"
    )
    password.add_argument("--password-env", metavar="NAME", help="of --pkcs12: the environment variable that has it")
    issue.add_argument("--replace", action="store_true", help="replace the files of this name")
    issue.set_defaults(run=issue_certificate)

    show = verbs.add_parser(
        "show",
        help="subject, names and days until expiry of the certificates of a folder, or of any PEM files",
        examples=("moldau certs show", "moldau certs show /etc/ssl/certs/ca-certificates.crt --json"),
    )
    show.add_argument("files", nargs="*", metavar="FILE", help="PEM files (default: those of the folder)")
    _add_folder(show)
    show.add_argument("--json", action="store_true", help="print JSON")
    show.set_defaults(run=show_certificates)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        type=not_empty,
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help="the folder of the authority (default: %(default)s)",
    )


def _add_days(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument(
        "--days", type=at_least_one, default=default, metavar="N", help="how long it is valid (default %(default)s)"
    )


def init_authority(arguments: argparse.Namespace) -> int:
    with _as_command_errors():
        from moldau.transport.authority_folder import AuthorityFolder

        folder = AuthorityFolder.create(Path(arguments.dir), arguments.name, _now(), _days(arguments))
    print(f"{folder.certificate_path}: the certificate that clients and nodes trust")
    print(f"{folder.key_path}: the key of the authority, to be kept secret")
    return 0


def issue_certificate(arguments: argparse.Namespace) -> int:
    password = _password(arguments)
    with _as_command_errors():
        from moldau.transport.authority_folder import AuthorityFolder

        written = AuthorityFolder(Path(arguments.dir)).issue(
            arguments.name,
            arguments.host,
            _now(),
            _days(arguments),
            pkcs12_password=password,
            replace=arguments.replace,
        )
    for path in written:
        print(path)
    return 0


def show_certificates(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.dir)
    with _as_command_errors():
        paths = [input_path(text) for text in arguments.files] or _files_of(folder)
        rows = [_row(path, certificate) for path in paths for certificate in _certificates(path)]
    print_rows(rows, _COLUMNS, as_json=arguments.json, empty="no certificate is there")
    return 0


def _files_of(folder: Path) -> list[Path]:
    """The certificates in the folder, the authority's first."""
    from moldau.transport.authority_folder import CERTIFICATE, KEY, has_authority

    if not has_authority(folder):
        raise CommandError(f"{folder} holds no {CERTIFICATE}: `moldau certs init` makes one, or name files")
    others = sorted(path for path in folder.glob("*.pem") if path.name not in (CERTIFICATE, KEY))
    return [folder / CERTIFICATE, *others]


def _certificates(path: Path) -> list[x509.Certificate]:
    from moldau.transport.authority import certificates_in

    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise CommandError(f"{path} has more than {MAX_FILE_BYTES} bytes: name a smaller file of PEM")
    try:
        return list(certificates_in(data))
    except ValueError as error:
        raise CommandError(f"{path} holds no certificate in PEM") from error


def _row(path: Path, certificate: x509.Certificate) -> dict[str, object]:
    from moldau.transport.authority import hosts_of

    end = certificate.not_valid_after_utc
    return {
        "file": str(path),
        "subject": certificate.subject.rfc4514_string(),
        "names": hosts_of(certificate),
        "issuer": certificate.issuer.rfc4514_string(),
        "expires": f"{end:%Y-%m-%d}",
        "days": (end - _now()).days,
    }


def _password(arguments: argparse.Namespace) -> str | None:
    """The password for PKCS12; None for another format. Raises CommandError."""
    is_named = arguments.password_file is not None or arguments.password_env is not None
    if not arguments.pkcs12:
        if is_named:
            raise CommandError("a password belongs to --pkcs12")
        return None
    if not is_named:
        raise CommandError("--pkcs12 needs --password-file or --password-env")
    if arguments.password_file == STANDARD_INPUT:
        password = sys.stdin.readline(MAX_FILE_BYTES).rstrip("\r\n")
    else:
        from moldau.client.protocol.secrets import Secret
        from moldau.transport.secrets import read_secret

        is_file = arguments.password_file is not None
        secret = Secret.in_file(arguments.password_file) if is_file else Secret.in_environment(arguments.password_env)
        with _as_command_errors():
            password = read_secret(secret, "--password-file" if is_file else "--password-env")
    if not password:
        raise CommandError("the password is empty")
    return password


def _days(arguments: argparse.Namespace) -> int:
    if arguments.days > MAX_DAYS:
        raise CommandError(f"--days takes at most {MAX_DAYS}, not {arguments.days}")
    return int(arguments.days)


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _as_command_errors() -> Iterator[None]:
    from moldau.errors import KafkaError, MoldauError
    from moldau.extras import MissingExtraError, require_extra

    try:
        require_extra("a certificate authority", "tls")
        yield
    except KafkaError as error:
        raise CommandError(error.message or error.name) from error
    except (MoldauError, MissingExtraError) as error:
        raise CommandError(str(error)) from error
