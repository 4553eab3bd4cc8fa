"""The result of a governance rule for a job or a node."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.tenants.governance import RuleMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem that a rule reports. ``text`` continues a sentence that begins with the subject.

    A finding of a rule in ``dry-run`` has no effect on the job.
    """

    rule: str
    mode: RuleMode
    owner: str
    subject: str
    text: str
    fix: str
    micro_usd_per_hour: int = 0
    """Hourly cost of breaking the rule, if known."""
    pools: frozenset[str] = frozenset()
    """Pools that the rule closes to the job, if it is enforced."""

    @property
    def code(self) -> str:
        """Error code of a rejection by this rule."""
        return f"policy-{self.rule}"

    def __str__(self) -> str:
        return f"{self.subject} {self.text} (rule {self.rule}, owned by {self.owner}). {self.fix}"
