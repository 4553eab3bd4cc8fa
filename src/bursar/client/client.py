"""The control plane, as a Python program sees it: one method for each route."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode

from bursar.api import wire
from bursar.client.address import find_address, find_token
from bursar.client.connection import Connection, HttpRequest, HttpResponse
from bursar.client.costs import Costs
from bursar.client.document import SENT, Document, changes_for, naming, read_document
from bursar.client.errors import Refused, Unreachable, refusal
from bursar.client.job import Job
from bursar.client.server_sent_events import ServerEvent, read_events

if TYPE_CHECKING:
    from bursar.client.bundle import Bundle

SEVERAL: Final = 200
QUIET_SECONDS: Final = 120.0
"""A stream that says nothing for so long, not even that it lives, is broken."""

Chosen = str | int | Sequence[str]
JobSource = Mapping[str, object] | str | Path | Document
MEMBER: Final = re.compile(r"(j-[a-z2-7]+)_(\d+)")
MOST_FRUITLESS: Final = 3
"""A stream that breaks off so often without a word is given up."""

JobDocument = JobSource | Callable[..., object]


class Client:
    """Talks to one server. Keeps one connection open; use one client for each thread.

    Without arguments it finds the server and the token as the command line does: ``BURSAR_SERVER`` and
    ``BURSAR_TOKEN``, else the state folder of ``bursar up`` on this machine.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        patience_seconds: float = 10.0,
    ) -> None:
        address = find_address(server)
        self._connection = Connection(
            address,
            find_token(token, address),
            timeout_seconds=timeout_seconds,
            patience_seconds=patience_seconds,
        )
        self._asked: dict[str, object] = {}
        self._uploaded: set[str] = set()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    @property
    def server(self) -> str:
        """The address of the server that answers now."""
        return str(self._connection.address)

    @property
    def is_open_to_listeners(self) -> bool:
        """Whether the token travels to another machine without TLS."""
        address = self._connection.address
        return address.scheme == "http" and not address.is_local

    def asking(self, **keys: object) -> Client:
        """The same client whose submissions say this too: ``asking(queue="vision", gpus=2)``."""
        other = Client.__new__(Client)
        other._connection = self._connection
        other._asked = {**self._asked, **keys}
        other._uploaded = self._uploaded
        return other

    # -- jobs --------------------------------------------------------------------------------------

    def submit(self, what: JobDocument, /, *args: object, **kwargs: object) -> Job:
        """Submit a job document (mapping, text or path), or call a function in a job.

        For a function ``args`` and ``kwargs`` are its own; ``asking`` says what the job needs. For a
        document ``kwargs`` replace keys of it: ``submit("job.yaml", queue="vision")``.
        """
        if callable(what):
            return self._submit_call(what, args, kwargs)
        if args:
            raise TypeError("only a function takes arguments; keys of a document are given by name")
        return self.submit_document(self.prepare(what, {**self._asked, **kwargs}))

    def prepare(self, what: JobSource, changes: Mapping[str, object]) -> Document:
        """The document with changes, and with its files uploaded and named by their content."""
        document = what if isinstance(what, Document) else read_document(what)
        changed = document.with_keys(changes_for(changes, document))
        return self._with_files(changed) if changed.mentions_files() else changed

    def submit_document(self, document: Document, key: str | None = None) -> Job:
        """Submit a document as it is. The same ``key`` twice submits once."""
        headers = {
            wire.IDEMPOTENCY_HEADER: key or _new_key(),
            "Content-Type": document.content_type,
        }
        with naming(document):
            told = self._send("POST", "/v1/jobs", document.text.encode(), headers)
        made = cast(wire.SubmittedView, told)
        job = Job(self, made["id"], tuple(made["ids"]))
        job.findings = tuple(made.get("findings", ()))
        return job

    def submit_many(self, documents: Sequence[Mapping[str, object]]) -> list[str]:
        """Up to 1,000 documents, all or none."""
        headers = {wire.IDEMPOTENCY_HEADER: _new_key()}
        told = self._post("/v1/jobs:bulk", {"jobs": list(documents)}, headers)
        return cast(wire.BulkSubmitted, told)["ids"]

    def plan(self, what: JobSource, **changes: object) -> wire.Plan:
        """What would become of a job, without submitting it or its files."""
        document = what if isinstance(what, Document) else read_document(what)
        document = document.with_keys(changes_for(changes, document))
        headers = {"Content-Type": document.content_type}
        with naming(document):
            return cast(wire.Plan, self._send("POST", "/v1/plan", document.text.encode(), headers))

    def job(self, job_id: str) -> Job:
        """A job by its id."""
        return Job(self, job_id)

    def show(self, job_id: str) -> wire.JobDetail:
        return cast(wire.JobDetail, self._get(_job(job_id)))

    def jobs(self, *, limit: int | None = None, **chosen: Chosen) -> Iterator[wire.JobView]:
        """Jobs, newest first: ``state``, ``queue``, ``owner``, ``name`` and ``label`` choose.

        Several states or queues are given as a list.
        """
        return cast(Iterator[wire.JobView], self._pages("/v1/jobs", limit, chosen))

    def queue(self, *, limit: int | None = None) -> Iterator[wire.Waiting]:
        """Waiting jobs in the order in which they come."""
        return cast(Iterator[wire.Waiting], self._pages("/v1/queue", limit, {}))

    def why(self, job_id: str) -> wire.ExplanationView:
        return cast(wire.ExplanationView, self._get(f"{_job(job_id)}/why"))

    def why_preempted(self, job_id: str) -> wire.InterruptionReportView:
        """What interrupted a job, what that cost, and what would help."""
        return cast(wire.InterruptionReportView, self._get(f"{_job(job_id)}/interruptions"))

    def events_of(self, job_id: str) -> list[wire.JobEventView]:
        return cast(wire.JobEvents, self._get(f"{_job(job_id)}/events"))["items"]

    def log_text(self, job_id: str, **chosen: str | int) -> str:
        """The output so far: ``task``, ``stream``, ``tail`` and ``attempt`` choose."""
        answer = self._ask("GET", f"{_job(job_id)}/logs{_query(chosen)}")
        return answer.body.decode("utf-8", errors="replace")

    def follow_logs(self, job_id: str, **chosen: str | int) -> Iterator[wire.LogPiece]:
        """Output as it is written, until the attempt is over; a broken connection is taken up again."""
        path = f"{_job(job_id)}/logs{_query({**chosen, 'follow': 'true'})}"
        for event in self._follow(path, over=lambda event: event.kind == "end"):
            if event.kind == "log":
                yield cast(wire.LogPiece, event.value)

    def watch(self) -> Iterator[ServerEvent]:
        """Changes of the states of jobs, as they happen."""
        return self._follow("/v1/events", over=lambda _event: False)

    def cancel(self, job_id: str) -> wire.JobView:
        return cast(wire.JobView, self._post(f"{_job(job_id)}:cancel"))

    def retry(self, job_id: str) -> Job:
        """The same once more, as a new job."""
        headers = {wire.IDEMPOTENCY_HEADER: _new_key()}
        made = cast(wire.SubmittedView, self._post(f"{_job(job_id)}:retry", None, headers))
        return Job(self, made["id"], tuple(made["ids"]))

    # -- fleet and tenants -------------------------------------------------------------------------

    def fleet(self) -> wire.FleetView:
        return cast(wire.FleetView, self._get("/v1/fleet"))

    def quota(self) -> list[wire.QuotaRow]:
        return cast(wire.QuotaPage, self._get("/v1/quota"))["items"]

    def findings(self) -> list[wire.FindingRow]:
        """What the house rules have to say."""
        return cast(wire.FindingPage, self._get("/v1/rules"))["items"]

    def metrics(self) -> str:
        """Figures for Prometheus."""
        return self._ask("GET", "/metrics").body.decode("utf-8")

    def fair(self) -> list[wire.FairRow]:
        return cast(wire.FairPage, self._get("/v1/fair"))["items"]

    @property
    def cost(self) -> Costs:
        """What things cost."""
        return Costs(self)

    def tenants(self) -> list[wire.TenantRow]:
        return cast(wire.TenantPage, self._get("/v1/tenants"))["items"]

    def plan_fleet(self, files: Mapping[str, str]) -> wire.FleetPlan:
        """What would change if the fleet were declared so."""
        return cast(wire.FleetPlan, self._post("/v1/fleet:plan", {"files": dict(files)}))

    def apply_fleet(
        self, files: Mapping[str, str], expected_sequence: int | None = None
    ) -> wire.FleetPlan:
        """Declare the fleet; with a sequence number only if nothing changed since it was planned."""
        body = {"files": dict(files), "expected_sequence": expected_sequence}
        return cast(wire.FleetPlan, self._post("/v1/fleet:apply", body, repeatable=False))

    # -- tokens ------------------------------------------------------------------------------------

    def whoami(self) -> wire.WhoAmI:
        return cast(wire.WhoAmI, self._get("/v1/whoami"))

    def tokens(self) -> list[wire.TokenRow]:
        return cast(wire.TokenPage, self._get("/v1/tokens"))["items"]

    def create_token(self, wanted: wire.TokenRequest) -> wire.NewToken:
        """A new token. Its text is in this answer and nowhere else."""
        return cast(wire.NewToken, self._post("/v1/tokens", dict(wanted), repeatable=False))

    def revoke_token(self, token_id: str) -> None:
        self._post(f"/v1/tokens/{quote(token_id, safe='')}:revoke")

    # -- operation ---------------------------------------------------------------------------------

    def alive(self) -> wire.Alive:
        """Whether the server answers; needs no token."""
        return cast(wire.Alive, self._get("/healthz"))

    def alive_at(self) -> tuple[wire.Alive, int | None]:
        """The same, and what time it is there, to the second."""
        from email.utils import parsedate_to_datetime

        answer = self._ask("GET", "/healthz")
        written = answer.headers.get("date")
        at_ms = int(parsedate_to_datetime(written).timestamp()) * 1_000 if written else None
        return cast(wire.Alive, answer.json()), at_ms

    def health(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._get("/v1/health"))

    def audit(self, *, limit: int | None = None) -> Iterator[wire.AuditRow]:
        """Who did what, newest first."""
        return cast(Iterator[wire.AuditRow], self._pages("/v1/audit", limit, {}))

    def drain(self, node: str) -> wire.NodeChanged:
        return cast(wire.NodeChanged, self._post(f"/v1/nodes/{quote(node, safe='')}:drain"))

    def restore(self, node: str) -> wire.NodeChanged:
        return cast(wire.NodeChanged, self._post(f"/v1/nodes/{quote(node, safe='')}:restore"))

    def interrupt(
        self, job_id: str, *, notice_seconds: int = 30, absence_seconds: int = 60
    ) -> wire.InterruptedView:
        """Take a running job's virtual node away; without a notice it is killed at once."""
        body = {"notice_seconds": notice_seconds, "absence_seconds": absence_seconds}
        path = f"{_job(job_id)}:interrupt"
        return cast(wire.InterruptedView, self._post(path, body, repeatable=False))

    def openapi(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._get("/v1/openapi.json"))

    def schema(self, name: str) -> dict[str, Any]:
        """The JSON Schema of ``job`` or ``fleet`` documents."""
        return cast(dict[str, Any], self._get(f"/v1/schema/{quote(name, safe='')}.json"))

    # -- files -------------------------------------------------------------------------------------

    def upload(self, bundle: Bundle) -> None:
        """Send a bundle, unless the server has it."""
        path = f"/v1/bundles/{bundle.sha256}"
        if bundle.sha256 not in self._uploaded and not self._has(path):
            self._ask("PUT", path, bundle.content, {"Content-Type": wire.BUNDLE})
        self._uploaded.add(bundle.sha256)

    def stored_bundle(self, sha256: str) -> wire.StoredBundle:
        """A bundle that somebody of your tenant has uploaded; ``NotFound`` when nobody has."""
        return cast(wire.StoredBundle, self._get(f"/v1/bundles/{quote(sha256, safe='')}"))

    def _has(self, path: str) -> bool:
        try:
            self._ask("HEAD", path)
        except Refused as refused:
            if refused.status in (404, 405):
                return False
            raise
        return True

    def _with_files(self, document: Document) -> Document:
        """``workdir`` and ``file_mounts`` name files here; the server wants names of bundles."""
        from bursar.client.bundle import pack, pack_files
        from bursar.client.local_files import find_local

        found = find_local(document)
        changes: dict[str, object] = {}
        if found.working:
            changes["workdir"] = self._sent(pack_files(found.working))
        if found.mounts is not None:
            changes["file_mounts"] = {
                target: self._sent(pack(source)) if isinstance(source, Path) else source
                for target, source in found.mounts.items()
            }
        return document.with_keys(changes)

    def _sent(self, bundle: Bundle) -> str:
        self.upload(bundle)
        return f"{SENT}{bundle.sha256}"

    def _submit_call(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Job:
        from bursar.client.function_call import pack_call

        asked = dict(self._asked)
        python = str(asked.pop("python", "") or self._python())
        call = pack_call(function, args, kwargs, python=python)
        self.upload(call.bundle)
        document = read_document(
            {"name": call.name, "workdir": f"{SENT}{call.bundle.sha256}", "run": call.run}
        )
        return self.submit_document(document.with_keys(changes_for(asked, document)))

    def _python(self) -> str:
        """The interpreter of a job: this very one where jobs run beside us, else what is found there."""
        if self._connection.address.is_local and shutil.which(sys.executable):
            return sys.executable
        return "python3"

    # -- the wire ----------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        repeatable: bool = True,
    ) -> HttpResponse:
        request = HttpRequest(
            method=method, path=path, body=body, headers=headers or {}, repeatable=repeatable
        )
        return self._connection.ask(request)

    def _send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> object:
        return self._ask(method, path, body, headers).json()

    def _get(self, path: str) -> object:
        return self._ask("GET", path).json()

    def _post(
        self,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        repeatable: bool = True,
    ) -> object:
        content = b"" if body is None else json.dumps(body).encode()
        said = {**(headers or {}), **({"Content-Type": wire.JSON} if content else {})}
        answer = self._ask("POST", path, content, said, repeatable=repeatable)
        return answer.json() if answer.body else None

    def _follow(self, path: str, *, over: Callable[[ServerEvent], bool]) -> Iterator[ServerEvent]:
        """Events until the last; when the stream breaks off, on from behind the last one that came."""
        last_id, fruitless = "", 0
        while fruitless < MOST_FRUITLESS:
            fruitless += 1
            headers = {"Accept": wire.EVENT_STREAM}
            if last_id:
                headers[wire.LAST_EVENT_HEADER] = last_id
            request = HttpRequest(
                method="GET", path=path, headers=headers, timeout_seconds=QUIET_SECONDS
            )
            try:
                for event in read_events(self._connection.stream(request)):
                    fruitless, last_id = 0, event.id or last_id
                    if event.kind == "problem":
                        raise refusal(422, event.value)
                    yield event
                    if over(event):
                        return
            except Unreachable:
                if fruitless >= MOST_FRUITLESS:
                    raise

    def _pages(
        self, path: str, limit: int | None, chosen: Mapping[str, Chosen]
    ) -> Iterator[object]:
        """Items, page after page, as far as they are wanted."""
        left, cursor = limit, ""
        while left is None or left > 0:
            size = SEVERAL if left is None else min(SEVERAL, left)
            query: dict[str, Chosen] = {**chosen, "limit": size}
            if cursor:
                query["cursor"] = cursor
            page = cast(dict[str, Any], self._get(f"{path}{_query(query)}"))
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return


def _new_key() -> str:
    return os.urandom(16).hex()


def _job(job_id: str) -> str:
    """``j-abc_3`` means ``j-abc[3]``: shells have their own ideas about brackets."""
    member = MEMBER.fullmatch(job_id)
    named = f"{member[1]}[{member[2]}]" if member else job_id
    return f"/v1/jobs/{quote(named, safe='')}"


def _query(chosen: Mapping[str, Chosen]) -> str:
    said = {name: value for name, value in chosen.items() if value not in ("", None, [])}
    return f"?{urlencode(said, doseq=True)}" if said else ""
