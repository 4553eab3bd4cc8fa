"""What a rule has to say about a job or a node."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.tenants.governance import RuleMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``text`` goes on from the subject's name; ``fix`` is a sentence of its own.

    A finding of a rule in ``dry-run`` changes nothing; so does a hint, which has no mode at all.
    """

    rule: str
    mode: RuleMode
    owner: str
    subject: str
    text: str
    fix: str
    micro_usd_per_hour: int = 0
    """What it costs an hour that the rule is not kept, where that can be said."""

    @property
    def code(self) -> str:
        """As refusals name it."""
        return f"policy-{self.rule}"

    def __str__(self) -> str:
        return f"{self.subject} {self.text} (rule {self.rule}, owned by {self.owner}). {self.fix}"
