"""Notifications and the channels (Slack, webhook, e-mail) that deliver them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class NotificationKind(StrEnum):
    """The occasion of a notification."""

    PREEMPTED = "preempted"
    RECOVERED = "recovered"
    FAILED = "failed"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A message: ``title`` is one line, ``text`` the details. Neither contains a secret."""

    occasion: NotificationKind
    at_ms: int
    tenant: str
    title: str
    text: str
    job_id: str = ""
    sequence: int = 0
    """Sequence number of its event: the same message sent twice has the same number."""


class ChannelKind(StrEnum):
    """The protocol of a channel."""

    SLACK = "slack"
    """A JSON body with ``text`` to an incoming webhook; Mattermost, Rocket.Chat and others take it too."""
    WEBHOOK = "webhook"
    """The message as JSON."""
    EMAIL = "email"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One recipient. Empty ``tenants`` means all; a tenant includes its descendants.

    ``url`` and ``password`` are secrets: they are never printed, logged or sent on.
    """

    name: str
    kind: ChannelKind
    on: tuple[NotificationKind, ...] = tuple(NotificationKind)
    tenants: tuple[str, ...] = ()
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    server: str = ""
    port: int = 587
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""
    to: tuple[str, ...] = ()
    encrypted: bool = True
    """E-mail by STARTTLS; only a server on this machine may do without."""
