"""``bursar token`` and ``bursar whoami``."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final, cast

from bursar.cli.arguments import add_connection, add_format, add_list, add_yes, new_parser
from bursar.cli.connection import ask
from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE
from bursar.cli.terminal.format import now_ms, timestamp
from bursar.cli.terminal.messages import confirm, is_interactive, print_error, print_note
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_one, show_list

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import wire

ROLES: Final = ("viewer", "member", "lead", "admin")
UNITS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "token",
        ("create, list and revoke tokens", ""),
        ("bursar token create --user ada --role member --tenant vision", "bursar token list"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    _add_create(verbs)
    listing = new_parser(
        verbs, "list", ("list tokens, newest first", ""), ("bursar token list --json",)
    )
    add_list(listing, limit=200)
    revoke = new_parser(
        verbs,
        "revoke",
        ("revoke a token; it works for at most one more second", ""),
        ("bursar token revoke ID",),
    )
    revoke.add_argument("id", metavar="ID", help="token id, as listed by 'bursar token list'")
    add_yes(revoke)
    add_connection(revoke)
    whoami = new_parser(
        commands,
        "whoami",
        ("print your user, role, permissions and queues", ""),
        ("bursar whoami",),
    )
    add_format(whoami)
    add_connection(whoami)


def _add_create(verbs: Subparsers) -> None:
    create = new_parser(
        verbs,
        "create",
        (
            "create a token",
            "The token is printed once; only its hash is stored. You cannot grant more rights than you have.",
        ),
        (
            "bursar token create --user ada --role member --tenant vision --expires 30d",
            "bursar token create --user ci --role member --tenant vision --scope jobs:read",
        ),
    )
    create.add_argument("--user", required=True, metavar="USER", help="user of the token")
    create.add_argument("--role", required=True, choices=ROLES, help="role of the user")
    create.add_argument(
        "--tenant",
        default="",
        metavar="TENANT",
        help="tenant of the role (default: the whole installation)",
    )
    create.add_argument(
        "--scope",
        action="append",
        metavar="SCOPE",
        help="only this right of the role, for example jobs:read; repeatable (default: all)",
    )
    create.add_argument(
        "--expires",
        type=_validity_seconds,
        metavar="TIME",
        help="validity, for example 12h or 30d (default: unlimited)",
    )
    add_format(create)
    add_connection(create)


def run_whoami(parsed: argparse.Namespace) -> int:
    identity = ask(parsed, lambda client: client.whoami())

    def print_text() -> None:
        print(f"user        {one_line(identity['user'])}")
        print(
            f"role        {identity['role']} of {one_line(identity['tenant']) or 'the whole installation'}"
        )
        print(f"may         {', '.join(identity['permissions'])}")
        print(f"queues      {one_line(', '.join(identity['queues'])) or '-'}")
        print(f"token       {one_line(identity['token_id'])}")

    print_one(parsed, identity, print_text)
    return OK


def run(parsed: argparse.Namespace) -> int:
    match parsed.verb:
        case "create":
            return _create(parsed)
        case "list":
            return show_list(
                parsed,
                TOKENS,
                lambda: [*ask(parsed, lambda client: client.tokens())][: parsed.limit],
            )
    return _revoke(parsed)


def _create(parsed: argparse.Namespace) -> int:
    request: dict[str, object] = {
        "user": parsed.user,
        "role": parsed.role,
        "tenant": parsed.tenant,
        "scopes": parsed.scope,
        "expires_in_seconds": parsed.expires,
    }
    request = {key: value for key, value in request.items() if value is not None}
    created = ask(parsed, lambda client: client.create_token(cast("wire.TokenRequest", request)))
    print_one(parsed, created, lambda: print(created["token"]))
    validity = (
        "without limit"
        if created["expires_at_ms"] is None
        else f"until {timestamp(created['expires_at_ms'])}"
    )
    print_note(
        f"token {created['id']} of {created['user']} is valid {validity}. It is not shown again."
    )
    return OK


def _revoke(parsed: argparse.Namespace) -> int:
    if not parsed.yes:
        if not is_interactive():
            print_error("cannot confirm the revocation: not a terminal.", "Pass --yes.")
            return WRONG_USAGE
        if not confirm(f"revoke token {parsed.id}?", default=False):
            print_note("revoked nothing.")
            return FAILED
    ask(parsed, lambda client: client.revoke_token(parsed.id))
    print_note(f"revoked token {parsed.id}.")
    return OK


def _validity_seconds(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9})\s*([a-z]+)", text.strip())
    if match is None or match[2] not in UNITS or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30min, 12h, 30d or 4w")
    return int(match[1]) * UNITS[match[2]]


def _state(token: Row) -> str:
    if token["revoked_at_ms"] is not None:
        return "revoked"
    expires = token["expires_at_ms"]
    return "expired" if expires is not None and expires <= now_ms() else "valid"


TOKENS: Final = TableSpec(
    columns=(
        Column("TOKEN", lambda row: row["id"], whole=True),
        Column("USER", lambda row: row["user"]),
        Column("ROLE", lambda row: row["role"]),
        Column("TENANT", lambda row: row["tenant"] or "(all)"),
        Column("STATE", _state),
        Column("EXPIRES", lambda row: timestamp(row["expires_at_ms"])),
        Column("LAST USED", lambda row: timestamp(row["last_used_at_ms"])),
        Column("CREATED", lambda row: timestamp(row["created_at_ms"]), only_wide=True),
        Column("BY", lambda row: row["created_by"], only_wide=True),
        Column("SCOPES", lambda row: " ".join(row["scopes"]), only_wide=True),
    ),
    keys=(
        *("id", "user", "role", "tenant", "scopes", "created_at_ms", "created_by"),
        *("expires_at_ms", "revoked_at_ms", "last_used_at_ms"),
    ),
    nothing="no tokens are visible to you.",
)
