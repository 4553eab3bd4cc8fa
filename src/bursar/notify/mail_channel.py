"""E-mail channels."""

from __future__ import annotations

import smtplib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid

from bursar.model.errors import EngineFault
from bursar.model.notification import Channel, Notification

TIMEOUT_SECONDS = 20.0


class MailChannel:
    """Sends messages by SMTP."""

    def __init__(self, channel: Channel) -> None:
        self.name = channel.name
        self._channel = channel

    def send(self, message: Notification) -> None:
        """Sends the message once; raises unless the server accepted it."""
        channel = self._channel
        try:
            with smtplib.SMTP(channel.server, channel.port, timeout=TIMEOUT_SECONDS) as server:
                if channel.encrypted:
                    server.starttls(context=ssl.create_default_context())
                if channel.user:
                    server.login(channel.user, channel.password)
                refused = server.send_message(_to_mail(channel, message))
        except smtplib.SMTPAuthenticationError as error:
            problem = f"{channel.server} rejected the user and password ({error.smtp_code})"
            raise EngineFault(problem, retry_after_seconds=0.0) from None
        except smtplib.SMTPResponseException as error:
            delay_seconds = 0.0 if error.smtp_code >= 500 else 5.0
            raise EngineFault(
                f"{channel.server} answered {error.smtp_code}", retry_after_seconds=delay_seconds
            ) from None
        except (OSError, smtplib.SMTPException) as error:
            raise EngineFault(
                f"{channel.server} cannot be reached: {type(error).__name__}",
                retry_after_seconds=5.0,
            ) from None
        if refused:
            raise EngineFault(
                f"{channel.server} refused {len(refused)} of {len(channel.to)} recipients",
                retry_after_seconds=0.0,
            )


def _to_mail(channel: Channel, message: Notification) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = channel.sender
    mail["To"] = ", ".join(channel.to)
    mail["Subject"] = " ".join(f"[bursar] {message.title}".split())
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.at_ms / 1_000, UTC))
    mail["Message-ID"] = make_msgid(domain="bursar.invalid")
    mail["X-Bursar-Sequence"] = str(message.sequence)
    mail.set_content(f"{message.text}\n")
    return mail
