"""Permissions of roles, tenants and scopes."""

from __future__ import annotations

import itertools

import pytest

from bursar.control.access.permissions import (
    INSTALLATION_WIDE,
    RANK,
    ROLE_PERMISSIONS,
    AccessTree,
    Grant,
    grant_scopes,
    may_change_job,
    may_revoke,
    permissions_of,
    role_permissions,
    visible_queues,
)
from bursar.control.access.token_cache import TokenSpec, new_token
from bursar.model.errors import UserError
from bursar.model.tenants.identity import MEMBER_OF_ALL, Identity, Permission, Role

TREE = AccessTree(
    parents={
        "acme": None,
        "team-a": "acme",
        "a-train": "team-a",
        "team-b": "acme",
        "b-train": "team-b",
    },
    queues=frozenset({"a-train", "b-train"}),
)
EVERYTHING = frozenset(Permission)


def identity(role: Role, tenant: str, scopes: frozenset[Permission] = EVERYTHING) -> Identity:
    return Identity(user="ann", role=role, tenant=tenant, scopes=scopes, token_id="t")


def test_a_higher_role_has_more_permissions() -> None:
    for lower, higher in itertools.pairwise(Role):
        assert ROLE_PERMISSIONS[lower] < ROLE_PERMISSIONS[higher]


@pytest.mark.parametrize("role", Role)
def test_installation_wide_permissions_need_an_installation_admin(role: Role) -> None:
    assert not permissions_of(identity(role, "team-a")) & INSTALLATION_WIDE
    global_permissions = permissions_of(identity(role, MEMBER_OF_ALL)) & INSTALLATION_WIDE
    assert global_permissions == (INSTALLATION_WIDE if role is Role.ADMIN else frozenset())


def test_scopes_only_remove_permissions() -> None:
    only_read = frozenset({Permission.READ_JOBS, Permission.OPERATE})
    assert permissions_of(identity(Role.VIEWER, "", only_read)) == {Permission.READ_JOBS}


@pytest.mark.parametrize(
    ("tenant", "visible"),
    [
        ("acme", {"a-train", "b-train"}),
        ("team-a", {"a-train"}),
        ("a-train", {"a-train"}),
        ("no-such-team", set()),
        ("team", set()),
    ],
)
def test_a_tenant_sees_the_queues_below_it(tenant: str, visible: set[str]) -> None:
    assert visible_queues(identity(Role.ADMIN, tenant), TREE) == visible


def test_a_member_of_the_installation_sees_all_queues() -> None:
    assert visible_queues(identity(Role.VIEWER, MEMBER_OF_ALL), TREE) is None


def test_members_may_change_their_own_jobs_and_leads_all_jobs() -> None:
    assert may_change_job(identity(Role.MEMBER, "team-a"), "ann")
    assert not may_change_job(identity(Role.MEMBER, "team-a"), "abe")
    assert may_change_job(identity(Role.LEAD, "team-a"), "abe")


ALL_TENANTS = ("", "acme", "team-a", "a-train", "team-b", "b-train", "no-such-team")


@pytest.mark.parametrize("grantor_tenant", ALL_TENANTS)
@pytest.mark.parametrize("grantor_role", Role)
def test_a_grant_never_exceeds_the_grantor(grantor_role: Role, grantor_tenant: str) -> None:
    """Every role at every tenant grants every role at every tenant."""
    grantor = identity(grantor_role, grantor_tenant)
    for role, tenant in itertools.product(Role, ALL_TENANTS):
        try:
            scopes = grant_scopes(grantor, Grant(user="x", role=role, tenant=tenant), TREE)
        except UserError:
            continue
        assert Permission.WRITE_TOKENS in permissions_of(grantor)
        assert RANK[role] <= RANK[grantor_role]
        granted = permissions_of(identity(role, tenant, frozenset(scopes)))
        assert granted <= permissions_of(grantor)
        covered = {tenant} if tenant else set(ALL_TENANTS)
        assert not grantor_tenant or covered <= TREE.reach(grantor_tenant)


def test_a_lead_grants_all_permissions_of_a_member() -> None:
    lead = identity(Role.LEAD, "team-a")
    scopes = grant_scopes(lead, Grant(user="x", role=Role.MEMBER, tenant="a-train"), TREE)
    assert frozenset(scopes) == role_permissions(Role.MEMBER, "a-train")


@pytest.mark.parametrize(
    ("grantor", "grant", "code"),
    [
        (
            identity(Role.MEMBER, "team-a"),
            Grant(user="x", role=Role.VIEWER, tenant="team-a"),
            "forbidden",
        ),
        (
            identity(Role.LEAD, "team-a"),
            Grant(user="x", role=Role.ADMIN, tenant="team-a"),
            "forbidden",
        ),
        (
            identity(Role.LEAD, "team-a"),
            Grant(user="x", role=Role.VIEWER, tenant="team-b"),
            "no-such-tenant",
        ),
        (
            identity(Role.LEAD, "team-a"),
            Grant(user="x", role=Role.VIEWER, tenant="acme"),
            "no-such-tenant",
        ),
        (
            identity(Role.ADMIN, "team-a"),
            Grant(user="x", role=Role.VIEWER, tenant=""),
            "no-such-tenant",
        ),
        (
            identity(Role.ADMIN, "", frozenset({Permission.WRITE_TOKENS})),
            Grant(user="x", role=Role.ADMIN, tenant="", scopes=[Permission.OPERATE]),
            "forbidden",
        ),
        (
            identity(Role.ADMIN, ""),
            Grant(user="x", role=Role.VIEWER, tenant="", scopes=[Permission.OPERATE]),
            "scope-beyond-role",
        ),
        (
            identity(Role.ADMIN, ""),
            Grant(user="x", role=Role.ADMIN, tenant="acme", scopes=[Permission.WRITE_FLEET]),
            "scope-beyond-role",
        ),
    ],
)
def test_a_grant_beyond_the_grantor_is_rejected(grantor: Identity, grant: Grant, code: str) -> None:
    with pytest.raises(UserError) as refused:
        grant_scopes(grantor, grant, TREE)
    assert refused.value.code == code


def test_a_token_with_few_scopes_grants_only_those() -> None:
    narrowed = identity(
        Role.LEAD, "team-a", frozenset({Permission.WRITE_TOKENS, Permission.READ_JOBS})
    )
    scopes = grant_scopes(narrowed, Grant(user="x", role=Role.LEAD, tenant="team-a"), TREE)
    assert set(scopes) == {Permission.WRITE_TOKENS, Permission.READ_JOBS}


def test_a_lead_may_not_revoke_the_token_of_an_admin() -> None:
    spec = TokenSpec(user="x", role=Role.ADMIN, tenant="team-a", scopes=(), created_by="y")
    token, _ = new_token(spec, 0)
    assert not may_revoke(identity(Role.LEAD, "team-a"), token)
    assert may_revoke(identity(Role.ADMIN, "team-a"), token)
