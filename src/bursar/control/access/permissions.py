"""Who may do what, to whom. Pure: a role, a tenant and a tree in, yes or no out.

Rights are held at a tenant and reach everything below it. A right that is not given here does not exist,
and nobody gives what he does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from bursar.model.errors import UserError
from bursar.model.tenants.identity import MEMBER_OF_ALL, Identity, Permission, Role, Token
from bursar.model.tenants.tenant import Tenant

_VIEWER = frozenset({Permission.READ_JOBS, Permission.READ_FLEET, Permission.READ_TENANTS})
_MEMBER = _VIEWER | {Permission.WRITE_JOBS}
_LEAD = _MEMBER | {Permission.WRITE_TOKENS, Permission.WRITE_TENANTS}

ROLE_PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.MEMBER: _MEMBER,
    Role.LEAD: _LEAD,
    Role.ADMIN: frozenset(Permission),
}
RANK: Mapping[Role, int] = {role: rank for rank, role in enumerate(Role)}
"""Roles from the least rights to the most, as ``Role`` lists them."""

INSTALLATION_WIDE = frozenset({Permission.WRITE_FLEET, Permission.OPERATE})
"""What touches everybody: only a right that reaches the whole installation allows it."""


def role_permissions(role: Role, tenant: str) -> frozenset[Permission]:
    """What somebody with this role at this tenant could be allowed at most."""
    allowed = ROLE_PERMISSIONS[role]
    return allowed if tenant == MEMBER_OF_ALL else allowed - INSTALLATION_WIDE


def permissions_of(who: Identity) -> frozenset[Permission]:
    """What somebody may do: his role's rights, as far as his token's scopes go."""
    return role_permissions(who.role, who.tenant) & who.scopes


def may(who: Identity, permission: Permission) -> bool:
    """Whether the permission is his."""
    return permission in permissions_of(who)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTree:
    """The tenants as far as access goes: who is below whom, and where jobs wait."""

    parents: Mapping[str, str | None]
    queues: frozenset[str]
    _reach: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)

    def reach(self, tenant: str) -> frozenset[str]:
        """The tenant and everything below it; nothing when there is no such tenant."""
        found = self._reach.get(tenant)
        if found is None:
            found = frozenset(name for name in self.parents if self._is_within(name, tenant))
            if tenant in self.parents or tenant == MEMBER_OF_ALL:
                self._reach[tenant] = found
        return found

    def _is_within(self, name: str, tenant: str) -> bool:
        if tenant == MEMBER_OF_ALL:
            return True
        at: str | None = name
        while at is not None and at != tenant:
            at = self.parents.get(at)
        return at is not None


def access_tree(tenants: Iterable[Tenant]) -> AccessTree:
    """The tree of declared tenants."""
    known = tuple(tenants)
    return AccessTree(
        parents={one.name: one.parent for one in known},
        queues=frozenset(one.name for one in known if one.is_queue),
    )


def tenants_seen(who: Identity, tree: AccessTree) -> frozenset[str]:
    """The tenants whose affairs are his to see."""
    return tree.reach(who.tenant)


def queues_seen(who: Identity, tree: AccessTree) -> frozenset[str] | None:
    """The queues whose jobs are his to see; None is all, also those that are no longer declared."""
    if who.tenant == MEMBER_OF_ALL:
        return None
    return tree.reach(who.tenant) & tree.queues


def sees_queue(who: Identity, queue: str, tree: AccessTree) -> bool:
    """Whether jobs of a queue exist for him at all."""
    seen = queues_seen(who, tree)
    return seen is None or queue in seen


def may_change_job(who: Identity, owner: str) -> bool:
    """Whether he may cancel or repeat a job that he sees: his own, or any when he leads."""
    return who.user == owner or RANK[who.role] >= RANK[Role.LEAD]


# -- granting ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Rights that somebody wants to give. Without scopes, all that the role allows the giver to give."""

    user: str
    role: Role
    tenant: str
    scopes: Collection[Permission] | None = None


def grant_scopes(who: Identity, grant: Grant, tree: AccessTree) -> tuple[Permission, ...]:
    """The scopes a granted token gets; refuses whatever the giver does not have himself.

    A tenant that the giver does not see is answered as one that does not exist.
    """
    if not may(who, Permission.WRITE_TOKENS):
        raise denied("your token may not make tokens.", "Ask a lead or an admin of your tenant.")
    if grant.tenant not in _grantable_tenants(who, tree):
        raise no_such_tenant(grant.tenant)
    if RANK[grant.role] > RANK[who.role]:
        raise denied(
            f"you are {who.role} and cannot make somebody {grant.role}.",
            f"Grant {who.role} or less, or ask somebody with the role {grant.role}.",
        )
    own = permissions_of(who)
    possible = role_permissions(grant.role, grant.tenant)
    if grant.scopes is None:
        return tuple(one for one in Permission if one in possible & own)
    wanted = frozenset(grant.scopes)
    if not wanted <= possible:
        beyond = ", ".join(sorted(wanted - possible))
        raise UserError(
            f"the role {grant.role} does not allow {beyond}.",
            fix=f"Leave it out, or choose from {', '.join(sorted(possible))}.",
            code="scope-beyond-role",
        )
    if not wanted <= own:
        beyond = ", ".join(sorted(wanted - own))
        raise denied(f"you do not have {beyond} yourself.", f"Grant only {', '.join(sorted(own))}.")
    return tuple(one for one in Permission if one in wanted)


def _grantable_tenants(who: Identity, tree: AccessTree) -> frozenset[str]:
    reach = tree.reach(who.tenant)
    return reach | {MEMBER_OF_ALL} if who.tenant == MEMBER_OF_ALL else reach


def sees_token(who: Identity, token: Token, tree: AccessTree) -> bool:
    """Whether a token exists for somebody: its tenant is within his reach."""
    return who.tenant == MEMBER_OF_ALL or token.tenant in tree.reach(who.tenant)


def may_revoke(who: Identity, token: Token) -> bool:
    """Whether he may end a token that he sees: none that has more rights than his own."""
    return RANK[token.role] <= RANK[who.role]


def denied(problem: str, fix: str) -> UserError:
    """A right that is not there."""
    return UserError(problem, fix=fix, code="forbidden")


def no_such_tenant(name: str) -> UserError:
    """The same answer for a tenant that does not exist and one that is not yours to see."""
    return UserError(
        f"there is no tenant {name[:80]!r} within your reach.",
        fix="'bursar tenant list' (GET /v1/tenants) lists those you may name.",
        code="no-such-tenant",
    )
