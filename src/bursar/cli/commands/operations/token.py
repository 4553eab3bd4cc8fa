"""``bursar token`` and ``bursar whoami``: who may do what, on whose behalf, until when."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final, cast

from bursar.cli.arguments import add_connection, add_format, add_list, add_yes, new_parser
from bursar.cli.connection import ask
from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE
from bursar.cli.terminal.format import moment, now_ms
from bursar.cli.terminal.messages import agreed, is_interactive, print_error, print_note
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_one, show_list

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import wire

ROLES: Final = ("viewer", "member", "lead", "admin")
UNITS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_parser(commands: Subparsers) -> None:
    """Both commands and their verbs."""
    parser = new_parser(
        commands,
        "token",
        ("create, list and revoke tokens", ""),
        ("bursar token create --user ada --role member --tenant vision", "bursar token list"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    create = new_parser(
        verbs,
        "create",
        (
            "make a token for somebody",
            "Prints the token once; only its hash is stored. You cannot grant more than your own role.",
        ),
        (
            "bursar token create --user ada --role member --tenant vision --expires 30d",
            "bursar token create --user ci --role member --tenant vision --scope jobs:read",
        ),
    )
    create.add_argument("--user", required=True, metavar="USER", help="whose it is")
    create.add_argument("--role", required=True, choices=ROLES, help="the role at that tenant")
    create.add_argument(
        "--tenant", default="", metavar="TENANT", help="where (default: the whole installation)"
    )
    create.add_argument(
        "--scope",
        action="append",
        metavar="SCOPE",
        help="only this right of the role, e.g. jobs:read; may be repeated (default: all)",
    )
    create.add_argument(
        "--expires", type=_length, metavar="TIME", help="for how long, e.g. 12h or 30d"
    )
    add_format(create)
    add_connection(create)
    every = new_parser(
        verbs, "list", ("list tokens, newest first", ""), ("bursar token list --json",)
    )
    add_list(every, limit=200)
    revoke = new_parser(
        verbs,
        "revoke",
        ("end a token; it works for at most a second more", ""),
        ("bursar token revoke ID",),
    )
    revoke.add_argument("id", metavar="ID", help="the id of a token, from the list")
    add_yes(revoke)
    add_connection(revoke)
    who = new_parser(
        commands,
        "whoami",
        ("say who the server takes you for, and what you may do", ""),
        ("bursar whoami",),
    )
    add_format(who)
    add_connection(who)


def run_whoami(parsed: argparse.Namespace) -> int:
    """Ask and tell."""
    found = ask(parsed, lambda client: client.whoami())

    def tell() -> None:
        print(f"user        {one_line(found['user'])}")
        print(
            f"role        {found['role']} of {one_line(found['tenant']) or 'the whole installation'}"
        )
        print(f"may         {', '.join(found['permissions'])}")
        print(f"queues      {one_line(', '.join(found['queues'])) or '-'}")
        print(f"token       {one_line(found['token_id'])}")

    print_one(parsed, found, tell)
    return OK


def run(parsed: argparse.Namespace) -> int:
    """Create, list or revoke."""
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
    wanted: dict[str, object] = {
        "user": parsed.user,
        "role": parsed.role,
        "tenant": parsed.tenant,
        "scopes": parsed.scope,
        "expires_in_seconds": parsed.expires,
    }
    wanted = {key: value for key, value in wanted.items() if value is not None}
    made = ask(parsed, lambda client: client.create_token(cast("wire.TokenRequest", wanted)))
    print_one(parsed, made, lambda: print(made["token"]))
    until = (
        "for ever" if made["expires_at_ms"] is None else f"until {moment(made['expires_at_ms'])}"
    )
    print_note(f"token {made['id']} of {made['user']} is valid {until}. It is not shown again.")
    return OK


def _revoke(parsed: argparse.Namespace) -> int:
    if not parsed.yes:
        if not is_interactive():
            print_error(f"token {parsed.id} would end, and there is nobody to ask.", "Say -y.")
            return WRONG_USAGE
        if not agreed(f"end token {parsed.id}?", default=False):
            print_note("nothing was ended.")
            return FAILED
    ask(parsed, lambda client: client.revoke_token(parsed.id))
    print_note(f"token {parsed.id} is ended.")
    return OK


def _length(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})\s*([a-z]+)", text.strip())
    if found is None or found[2] not in UNITS or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30min, 12h, 30d or 4w")
    return int(found[1]) * UNITS[found[2]]


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
        Column("EXPIRES", lambda row: moment(row["expires_at_ms"])),
        Column("LAST USED", lambda row: moment(row["last_used_at_ms"])),
        Column("CREATED", lambda row: moment(row["created_at_ms"]), only_wide=True),
        Column("BY", lambda row: row["created_by"], only_wide=True),
        Column("SCOPES", lambda row: " ".join(row["scopes"]), only_wide=True),
    ),
    keys=(
        *("id", "user", "role", "tenant", "scopes", "created_at_ms", "created_by"),
        *("expires_at_ms", "revoked_at_ms", "last_used_at_ms"),
    ),
    nothing="there are no tokens that you may see.",
)
