"""What all requests to the writer have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from bursar.control.live.transaction import Transaction

T = TypeVar("T")
AfterCommit = Callable[[], Any]
"""Called after commit and apply; returns the result of the request."""


@dataclass(slots=True, kw_only=True)
class WriteRequest(ABC, Generic[T]):
    """Something to write, with a future for its result."""

    alone: ClassVar[bool] = False
    """Whether it needs a transaction of its own, because later requests must see its effect."""
    future: Future[T] = field(default_factory=Future)

    @abstractmethod
    def prepare(self, transaction: Transaction) -> AfterCommit:
        """Add to the transaction, or raise ``UserError`` and add nothing."""
