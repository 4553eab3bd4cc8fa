"""Authorisation rules. Pure functions of a role, a tenant and the tenant tree.

A permission is held at a tenant and covers everything below it. Anything not allowed here is denied, and
users can grant only permissions that they hold.
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
"""Permissions that affect all tenants; need a role at the root."""


def role_permissions(role: Role, tenant: str) -> frozenset[Permission]:
    """All permissions of a role at a tenant."""
    allowed = ROLE_PERMISSIONS[role]
    return allowed if tenant == MEMBER_OF_ALL else allowed - INSTALLATION_WIDE


def permissions_of(caller: Identity) -> frozenset[Permission]:
    """Permissions of a caller: those of the role, limited by the token's scopes."""
    return role_permissions(caller.role, caller.tenant) & caller.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTree:
    """The tenant tree for access checks: parents, and which tenants are queues."""

    parents: Mapping[str, str | None]
    queues: frozenset[str]
    _reach: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)

    def reach(self, tenant: str) -> frozenset[str]:
        """The tenant and everything below it; empty for an unknown tenant."""
        reach = self._reach.get(tenant)
        if reach is None:
            reach = frozenset(name for name in self.parents if self._is_within(name, tenant))
            if tenant in self.parents or tenant == MEMBER_OF_ALL:
                self._reach[tenant] = reach
        return reach

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


def visible_tenants(caller: Identity, tree: AccessTree) -> frozenset[str]:
    """Tenants that the caller may see."""
    return tree.reach(caller.tenant)


def visible_queues(caller: Identity, tree: AccessTree) -> frozenset[str] | None:
    """Queues whose jobs the caller may see; None means all, including undeclared ones."""
    if caller.tenant == MEMBER_OF_ALL:
        return None
    return tree.reach(caller.tenant) & tree.queues


def can_see_queue(caller: Identity, queue: str, tree: AccessTree) -> bool:
    visible = visible_queues(caller, tree)
    return visible is None or queue in visible


def may_change_job(caller: Identity, owner: str) -> bool:
    """Whether the caller may cancel or retry a visible job: its owner, or a lead."""
    return caller.user == owner or RANK[caller.role] >= RANK[Role.LEAD]


# -- granting ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A token to be granted. Without scopes: all that both role and granter have."""

    user: str
    role: Role
    tenant: str
    scopes: Collection[Permission] | None = None


def grant_scopes(caller: Identity, grant: Grant, tree: AccessTree) -> tuple[Permission, ...]:
    """Scopes of a granted token; an error if they exceed the granter's own.

    A tenant that the granter cannot see gets the same error as one that does not exist.
    """
    if Permission.WRITE_TOKENS not in permissions_of(caller):
        raise denied("your token may not create tokens.", "Ask a lead or an admin of your tenant.")
    if grant.tenant not in _grantable_tenants(caller, tree):
        raise no_such_tenant(grant.tenant)
    if RANK[grant.role] > RANK[caller.role]:
        raise denied(
            f"your role is {caller.role}; you cannot grant the role {grant.role}.",
            f"Grant {caller.role} or less, or ask a user with the role {grant.role}.",
        )
    own = permissions_of(caller)
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


def _grantable_tenants(caller: Identity, tree: AccessTree) -> frozenset[str]:
    reach = tree.reach(caller.tenant)
    return reach | {MEMBER_OF_ALL} if caller.tenant == MEMBER_OF_ALL else reach


def can_see_token(caller: Identity, token: Token, tree: AccessTree) -> bool:
    """Whether a token's tenant is visible to the caller."""
    return caller.tenant == MEMBER_OF_ALL or token.tenant in tree.reach(caller.tenant)


def may_revoke(caller: Identity, token: Token) -> bool:
    """Whether the caller may revoke a visible token: its role is not above the caller's."""
    return RANK[token.role] <= RANK[caller.role]


def denied(problem: str, fix: str) -> UserError:
    return UserError(problem, fix=fix, code="forbidden")


def no_such_tenant(name: str) -> UserError:
    """The error for a tenant that does not exist or that the caller cannot see."""
    return UserError(
        f"there is no tenant {name[:80]!r} that you can see.",
        fix="'bursar tenant list' (GET /v1/tenants) lists your tenants.",
        code="no-such-tenant",
    )
