"""Starts one delivery thread for each notification channel of the operator's file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import EngineFault, UserError

if TYPE_CHECKING:
    from bursar.control.control_plane import ControlPlane
    from bursar.model.notification import Channel
    from bursar.ports import Notifier

CLOSE_SECONDS = 5.0
"""How long the program waits for messages that are being sent when it ends."""


def notifier_for(channel: Channel) -> Notifier:
    """The notifier of a channel, by its kind."""
    from bursar.model.notification import ChannelKind
    from bursar.notify.http_channel import HttpChannel
    from bursar.notify.mail_channel import MailChannel

    return MailChannel(channel) if channel.kind is ChannelKind.EMAIL else HttpChannel(channel)


def channels_of(path: Path | None) -> tuple[Channel, ...]:
    """The channels of a file; read before the server starts, to report mistakes early."""
    from bursar.config.notify_file import read_channels

    return read_channels(path) if path is not None else ()


@contextmanager
def notifying(
    plane: ControlPlane, channels: tuple[Channel, ...], state: Path, log: Callable[[str], None]
) -> Iterator[None]:
    """Within the block, notifications are delivered."""
    from bursar.notify.delivery import Delivery, DeliveryContext

    def parents() -> dict[str, str | None]:
        declared = plane.declaration()
        tenants = declared[0].tenants if declared is not None else ()
        return {one.name: one.parent for one in tenants}

    context = DeliveryContext(
        reader=plane.reader,
        is_leader=lambda: plane.is_leader,
        last_sequence=lambda: plane.health().last_sequence,
        parents=parents,
        now_ms=lambda: time.time_ns() // 1_000_000,
        report=log,
        folder=state,
    )
    deliveries = [Delivery(one, notifier_for(one), context) for one in channels]
    for delivery in deliveries:
        delivery.start()
    try:
        yield
    finally:
        for delivery in deliveries:
            delivery.stop()
        for delivery in deliveries:
            delivery.close(timeout_seconds=CLOSE_SECONDS)


def try_channels(path: Path, name: str | None, now_ms: int) -> Iterator[tuple[str, str]]:
    """Send a test message to each channel, or to one; yields its name and the error, if any."""
    from bursar.model.notification import Notification, NotificationKind

    channels = [one for one in channels_of(path) if name in (None, one.name)]
    if not channels:
        raise UserError(
            f"{path} has no channel{f' named {name!r}' if name else ''}.",
            fix="Write one under 'channels'; docs/notifications.md shows how.",
            code="no-channel",
        )
    for channel in channels:
        message = Notification(
            occasion=NotificationKind.RECOVERED,
            at_ms=now_ms,
            tenant="",
            title="this is a test of Bursar",
            text="You will be notified here of events of jobs and budgets.",
        )
        try:
            notifier_for(channel).send(message)
        except EngineFault as fault:
            yield channel.name, str(fault)
        else:
            yield channel.name, ""
