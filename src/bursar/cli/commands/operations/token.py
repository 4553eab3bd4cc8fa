"""``bursar token`` and ``bursar whoami``."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final, cast

from bursar.cli.arguments import (
    CONNECTION,
    FORMAT,
    YES,
    argument,
    choice,
    command,
    command_of_verbs,
    listing,
)
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.format import now_ms, timestamp
from bursar.cli.terminal.messages import print_note, refused
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_one, show_list

if TYPE_CHECKING:
    from bursar.client import wire

ROLES: Final = ("viewer", "member", "lead", "admin")
UNITS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _validity_seconds(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9})\s*([a-z]+)", text.strip())
    if match is None or match[2] not in UNITS or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30min, 12h, 30d or 4w")
    return int(match[1]) * UNITS[match[2]]


@command(
    "create",
    argument("--user", "USER", "user of the token", required=True),
    choice("--role", ROLES, "role of the user", required=True),
    argument(
        "--tenant", "TENANT", "tenant of the role (default: the whole installation)", default=""
    ),
    argument(
        "--scope",
        "SCOPE",
        "only this right of the role, for example jobs:read; repeatable (default: all)",
        action="append",
    ),
    argument(
        "--expires",
        "TIME",
        "validity, for example 12h or 30d (default: unlimited)",
        type=_validity_seconds,
    ),
    FORMAT,
    CONNECTION,
    examples=(
        "bursar token create --user ada --role member --tenant vision --expires 30d",
        "bursar token create --user ci --role member --tenant vision --scope jobs:read",
    ),
)
def create(parsed: argparse.Namespace) -> int:
    """Create a token.

    The token is printed once; only its hash is stored. You cannot grant more rights than you have.
    """
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


@command("list", *listing(200), examples=("bursar token list --json",))
def list_tokens(parsed: argparse.Namespace) -> int:
    """List tokens, newest first."""
    return show_list(parsed, TOKENS, lambda client: client.tokens())


@command(
    "revoke",
    argument("id", "ID", "token id, as listed by 'bursar token list'"),
    YES,
    CONNECTION,
    examples=("bursar token revoke ID",),
)
def revoke(parsed: argparse.Namespace) -> int:
    """Revoke a token; it works for at most one more second."""
    question = f"revoke token {parsed.id}?"
    if not parsed.yes and (
        code := refused(question, subject="the revocation", otherwise="revoked nothing.")
    ):
        return code
    ask(parsed, lambda client: client.revoke_token(parsed.id))
    print_note(f"revoked token {parsed.id}.")
    return OK


token = command_of_verbs(
    "token",
    "Create, list and revoke tokens.",
    *(create, list_tokens, revoke),
    examples=(
        "bursar token create --user ada --role member --tenant vision",
        "bursar token list",
    ),
)


@command("whoami", FORMAT, CONNECTION, examples=("bursar whoami",))
def whoami(parsed: argparse.Namespace) -> int:
    """Print your user, role, permissions and queues."""
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
    keys="TokenRow",
    nothing="no tokens are visible to you.",
)
