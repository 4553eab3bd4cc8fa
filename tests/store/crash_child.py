"""``python -m tests.store.crash_child ADDRESS [fork]``: writes until it is killed.

Each batch has a few jobs and their events. The last sequence number is printed after the batch is
committed, so that the parent knows which events must be in the log.
"""

from __future__ import annotations

import os
import sys
import time

from bursar.ports import Batch
from bursar.store import open_store
from tests.store import facts

EVENTS_IN_BATCH = 8


def numbered_batch(number: int) -> Batch:
    """The batch with this number; it is the same in every run."""
    first, second, third = (f"j-{number}-{letter}" for letter in "abc")
    origin = facts.origin(secrets={"TOKEN": "s3cret"}, labels={"batch": str(number)})
    events = (
        facts.submitted(first),
        facts.submitted(second, depends_on=(first,)),
        facts.submitted(third, retries=1),
        facts.assigned(first, node=f"n{number % 5}"),
        facts.assigned(third, node="n1"),
        facts.started(first),
        facts.succeeded(first),
        facts.failed(third),
    )
    origins = dict.fromkeys((first, second, third), origin)
    return Batch(events=events, origins=origins, audit=(facts.audit_entry(str(number)),))


def main(address: str, *options: str) -> None:
    store = open_store(address)
    lead = store.try_lead(f"pid {os.getpid()}")
    assert lead is not None
    if "fork" in options and os.fork() == 0:
        os.close(sys.stdout.fileno())
        time.sleep(60)
        os._exit(0)
    number = store.last_sequence() // EVENTS_IN_BATCH
    while True:
        number += 1
        sys.stdout.write(f"{store.append(numbered_batch(number), lead)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
