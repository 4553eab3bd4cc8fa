"""The client class: one method for each route of the API."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from bursar.api import wire
from bursar.client.address import find_address, find_token
from bursar.client.connection import Connection, HttpRequest, HttpResponse
from bursar.client.costs import Costs, Filter, query_of
from bursar.client.document import SENT, Document, changes_for, naming, read_document
from bursar.client.errors import Refused, Unreachable, refusal
from bursar.client.job import Job
from bursar.client.server_sent_events import ServerEvent, read_events

if TYPE_CHECKING:
    from bursar.client.bundle import Bundle

PAGE_SIZE: Final = 200
STREAM_TIMEOUT_SECONDS: Final = 120.0
"""A stream without data or heartbeat for so long is broken."""

JobSource = Mapping[str, object] | str | Path | Document
MEMBER: Final = re.compile(r"(j-[a-z2-7]+)_(\d+)")
MAX_EMPTY_STREAMS: Final = 3
"""After so many broken streams without an event the client gives up."""

JobDocument = JobSource | Callable[..., object]


class Client:
    """A client of one server. It has one open connection; use one client for each thread.

    Without arguments it finds the server and the token as the command line does: ``BURSAR_SERVER`` and
    ``BURSAR_TOKEN``, else the state folder of ``bursar up`` on this machine. ``timeout_seconds`` limits one
    response; failed requests are retried for ``retry_seconds``.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        retry_seconds: float = 10.0,
    ) -> None:
        address = find_address(server)
        self._connection = Connection(
            address,
            find_token(token, address),
            timeout_seconds=timeout_seconds,
            retry_seconds=retry_seconds,
        )
        self._job_keys: dict[str, object] = {}
        self._uploaded: set[str] = set()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    @property
    def server(self) -> str:
        """The address of the current server; it changes with the leader."""
        return str(self._connection.address)

    @property
    def is_open_to_listeners(self) -> bool:
        """Whether the token is sent to another machine without TLS."""
        address = self._connection.address
        return address.scheme == "http" and not address.is_local

    def with_options(self, **keys: object) -> Client:
        """A copy that adds these keys to each submission: ``with_options(queue="vision", gpus=2)``."""
        other = Client.__new__(Client)
        other._connection = self._connection
        other._job_keys = {**self._job_keys, **keys}
        other._uploaded = self._uploaded
        return other

    # -- jobs --------------------------------------------------------------------------------------

    def submit(self, what: JobDocument, /, *args: object, **kwargs: object) -> Job:
        """Submits a job document (mapping, text or path), or a call of a function.

        For a function, ``args`` and ``kwargs`` are its arguments; ``with_options`` sets keys of the job.
        For a document, ``kwargs`` replace its keys: ``submit("job.yaml", queue="vision")``.
        """
        if callable(what):
            return self._submit_call(what, args, kwargs)
        if args:
            raise TypeError(
                "only a function takes positional arguments; pass keys of a document by name"
            )
        return self.submit_document(self.prepare(what, {**self._job_keys, **kwargs}))

    def prepare(self, what: JobSource, changes: Mapping[str, object]) -> Document:
        """Applies changes to a document and uploads its files."""
        document = what if isinstance(what, Document) else read_document(what)
        changed = document.with_keys(changes_for(changes, document))
        return self._with_files(changed) if changed.mentions_files() else changed

    def submit_document(self, document: Document, key: str | None = None) -> Job:
        """Submits a document unchanged. Two calls with the same ``key`` submit it once."""
        headers = {wire.IDEMPOTENCY_HEADER: key or _new_key()}
        submitted = cast(wire.SubmittedView, self._post_document("/v1/jobs", document, headers))
        job = Job(self, submitted["id"], tuple(submitted["ids"]))
        job.findings = tuple(submitted.get("findings", ()))
        return job

    def submit_many(self, documents: Sequence[Mapping[str, object]]) -> list[str]:
        """Submits up to 1,000 documents, all or none."""
        headers = {wire.IDEMPOTENCY_HEADER: _new_key()}
        reply = self._post("/v1/jobs:bulk", {"jobs": list(documents)}, headers)
        return cast(wire.BulkSubmitted, reply)["ids"]

    def plan(self, what: JobSource, **changes: object) -> wire.Plan:
        """Plans a job without submitting it or its files."""
        document = what if isinstance(what, Document) else read_document(what)
        document = document.with_keys(changes_for(changes, document))
        return cast(wire.Plan, self._post_document("/v1/plan", document, {}))

    def job(self, job_id: str) -> Job:
        return Job(self, job_id)

    def show(self, job_id: str) -> wire.JobDetail:
        return cast(wire.JobDetail, self._get(_job(job_id)))

    def jobs(self, *, limit: int | None = None, **filters: Filter) -> Iterator[wire.JobView]:
        """Jobs, newest first, filtered by ``state``, ``queue``, ``owner``, ``name`` and ``label``.

        Pass several states or queues as a list.
        """
        return cast(Iterator[wire.JobView], self._pages("/v1/jobs", limit, filters))

    def queue(self, *, limit: int | None = None) -> Iterator[wire.Waiting]:
        """Waiting jobs in queue order."""
        return cast(Iterator[wire.Waiting], self._pages("/v1/queue", limit, {}))

    def why(self, job_id: str) -> wire.ExplanationView:
        return cast(wire.ExplanationView, self._get(f"{_job(job_id)}/why"))

    def why_preempted(self, job_id: str) -> wire.InterruptionReportView:
        """What interrupted a job, what that cost, and what would help."""
        return cast(wire.InterruptionReportView, self._get(f"{_job(job_id)}/interruptions"))

    def events_of(self, job_id: str) -> list[wire.JobEventView]:
        return cast(wire.JobEvents, self._get(f"{_job(job_id)}/events"))["items"]

    def log_text(self, job_id: str, **filters: str | int) -> str:
        """The output so far, filtered by ``task``, ``stream``, ``tail`` and ``attempt``."""
        response = self._request("GET", f"{_job(job_id)}/logs{query_of(filters)}")
        return response.body.decode("utf-8", errors="replace")

    def follow_logs(self, job_id: str, **filters: str | int) -> Iterator[wire.LogPiece]:
        """Output as it is written, until the attempt ends; resumes after a broken connection."""
        path = f"{_job(job_id)}/logs{query_of({**filters, 'follow': 'true'})}"
        for event in self._follow(path, is_last=lambda event: event.kind == "end"):
            if event.kind == "log":
                yield cast(wire.LogPiece, event.value)

    def watch(self) -> Iterator[ServerEvent]:
        """Events of jobs, as they happen."""
        return self._follow("/v1/events", is_last=lambda _event: False)

    def cancel(self, job_id: str) -> wire.JobView:
        return cast(wire.JobView, self._post(f"{_job(job_id)}:cancel"))

    def retry(self, job_id: str) -> Job:
        """Submits a finished job again, as a new job."""
        headers = {wire.IDEMPOTENCY_HEADER: _new_key()}
        submitted = cast(wire.SubmittedView, self._post(f"{_job(job_id)}:retry", None, headers))
        return Job(self, submitted["id"], tuple(submitted["ids"]))

    # -- fleet and tenants -------------------------------------------------------------------------

    def fleet(self) -> wire.FleetView:
        return cast(wire.FleetView, self._get("/v1/fleet"))

    def quota(self) -> list[wire.QuotaRow]:
        return cast(wire.QuotaPage, self._get("/v1/quota"))["items"]

    def findings(self) -> list[wire.FindingRow]:
        """Findings of the governance rules."""
        return cast(wire.FindingPage, self._get("/v1/rules"))["items"]

    def metrics(self) -> str:
        """Metrics in the Prometheus text format."""
        return self._request("GET", "/metrics").body.decode("utf-8")

    def fair(self) -> list[wire.FairRow]:
        return cast(wire.FairPage, self._get("/v1/fair"))["items"]

    @property
    def cost(self) -> Costs:
        """The methods about money."""
        return Costs(self)

    def tenants(self) -> list[wire.TenantRow]:
        return cast(wire.TenantPage, self._get("/v1/tenants"))["items"]

    def plan_fleet(self, files: Mapping[str, str]) -> wire.FleetPlan:
        """The changes that these fleet files would make."""
        return cast(wire.FleetPlan, self._post("/v1/fleet:plan", {"files": dict(files)}))

    def apply_fleet(
        self, files: Mapping[str, str], expected_sequence: int | None = None
    ) -> wire.FleetPlan:
        """Applies fleet files; with a sequence number only if nothing changed since the plan."""
        body = {"files": dict(files), "expected_sequence": expected_sequence}
        return cast(wire.FleetPlan, self._post("/v1/fleet:apply", body, repeatable=False))

    # -- tokens ------------------------------------------------------------------------------------

    def whoami(self) -> wire.WhoAmI:
        return cast(wire.WhoAmI, self._get("/v1/whoami"))

    def tokens(self) -> list[wire.TokenRow]:
        return cast(wire.TokenPage, self._get("/v1/tokens"))["items"]

    def create_token(self, request: wire.TokenRequest) -> wire.NewToken:
        """Creates a token. Its text is in this response only."""
        return cast(wire.NewToken, self._post("/v1/tokens", dict(request), repeatable=False))

    def revoke_token(self, token_id: str) -> None:
        self._post(f"/v1/tokens/{quote(token_id, safe='')}:revoke")

    # -- operation ---------------------------------------------------------------------------------

    def alive(self) -> wire.Alive:
        """Whether the server is up; needs no token."""
        return cast(wire.Alive, self._get("/healthz"))

    def alive_at(self) -> tuple[wire.Alive, int | None]:
        """The same, and the server's time, to the second."""
        from email.utils import parsedate_to_datetime

        response = self._request("GET", "/healthz")
        date = response.headers.get("date")
        at_ms = int(parsedate_to_datetime(date).timestamp()) * 1_000 if date else None
        return cast(wire.Alive, response.json()), at_ms

    def health(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._get("/v1/health"))

    def audit(self, *, limit: int | None = None) -> Iterator[wire.AuditRow]:
        """The audit log, newest first."""
        return cast(Iterator[wire.AuditRow], self._pages("/v1/audit", limit, {}))

    def drain(self, node: str) -> wire.NodeChanged:
        return cast(wire.NodeChanged, self._post(f"/v1/nodes/{quote(node, safe='')}:drain"))

    def restore(self, node: str) -> wire.NodeChanged:
        return cast(wire.NodeChanged, self._post(f"/v1/nodes/{quote(node, safe='')}:restore"))

    def interrupt(
        self, job_id: str, *, notice_seconds: int = 30, absence_seconds: int = 60
    ) -> wire.InterruptedView:
        """Interrupts the virtual node of a running job; without a notice, the job is killed at once."""
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
        """Uploads a bundle unless the server has it."""
        path = f"/v1/bundles/{bundle.sha256}"
        if bundle.sha256 not in self._uploaded and not self._has(path):
            self._request("PUT", path, bundle.content, {"Content-Type": wire.BUNDLE})
        self._uploaded.add(bundle.sha256)

    def stored_bundle(self, sha256: str) -> wire.StoredBundle:
        """A bundle that your tenant has uploaded; else raises ``NotFound``."""
        return cast(wire.StoredBundle, self._get(f"/v1/bundles/{quote(sha256, safe='')}"))

    def _has(self, path: str) -> bool:
        try:
            self._request("HEAD", path)
        except Refused as refused:
            if refused.status in (404, 405):
                return False
            raise
        return True

    def _with_files(self, document: Document) -> Document:
        """Uploads the local files of ``workdir`` and ``file_mounts``, and names their bundles instead."""
        from bursar.client.bundle import pack, pack_files
        from bursar.client.local_files import find_local

        files = find_local(document)
        changes: dict[str, object] = {}
        if files.working:
            changes["workdir"] = self._upload_name(pack_files(files.working))
        if files.mounts is not None:
            changes["file_mounts"] = {
                target: self._upload_name(pack(source)) if isinstance(source, Path) else source
                for target, source in files.mounts.items()
            }
        return document.with_keys(changes)

    def _upload_name(self, bundle: Bundle) -> str:
        self.upload(bundle)
        return f"{SENT}{bundle.sha256}"

    def _submit_call(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Job:
        from bursar.client.function_call import pack_call

        keys = dict(self._job_keys)
        python = str(keys.pop("python", "") or self._python())
        call = pack_call(function, args, kwargs, python=python)
        self.upload(call.bundle)
        document = read_document(
            {"name": call.name, "workdir": f"{SENT}{call.bundle.sha256}", "run": call.run}
        )
        return self.submit_document(document.with_keys(changes_for(keys, document)))

    def _python(self) -> str:
        """The interpreter of a job: this one if the server is local, else ``python3`` of the node."""
        if self._connection.address.is_local and shutil.which(sys.executable):
            return sys.executable
        return "python3"

    # -- requests ----------------------------------------------------------------------------------

    def _request(
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
        return self._connection.send(request)

    def _get(self, path: str) -> object:
        return self._request("GET", path).json()

    def _post(
        self,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        repeatable: bool = True,
    ) -> object:
        content = b"" if body is None else json.dumps(body).encode()
        all_headers = {**(headers or {}), **({"Content-Type": wire.JSON} if content else {})}
        response = self._request("POST", path, content, all_headers, repeatable=repeatable)
        return response.json() if response.body else None

    def _post_document(self, path: str, document: Document, headers: Mapping[str, str]) -> object:
        headers = {**headers, "Content-Type": document.content_type}
        with naming(document):
            return self._request("POST", path, document.text.encode(), headers).json()

    def _follow(
        self, path: str, *, is_last: Callable[[ServerEvent], bool]
    ) -> Iterator[ServerEvent]:
        """Events until the last; a broken stream is resumed after the last event received."""
        last_id, empty_streams = "", 0
        while empty_streams < MAX_EMPTY_STREAMS:
            empty_streams += 1
            headers = {"Accept": wire.EVENT_STREAM}
            if last_id:
                headers[wire.LAST_EVENT_HEADER] = last_id
            request = HttpRequest(
                method="GET", path=path, headers=headers, timeout_seconds=STREAM_TIMEOUT_SECONDS
            )
            try:
                for event in read_events(self._connection.stream(request)):
                    empty_streams, last_id = 0, event.id or last_id
                    if event.kind == "problem":
                        raise refusal(422, event.value)
                    yield event
                    if is_last(event):
                        return
            except Unreachable:
                if empty_streams >= MAX_EMPTY_STREAMS:
                    raise

    def _pages(
        self, path: str, limit: int | None, filters: Mapping[str, Filter]
    ) -> Iterator[object]:
        """Items of all pages, up to the limit."""
        remaining, cursor = limit, ""
        while remaining is None or remaining > 0:
            size = PAGE_SIZE if remaining is None else min(PAGE_SIZE, remaining)
            query: dict[str, Filter] = {**filters, "limit": size}
            if cursor:
                query["cursor"] = cursor
            page = cast(dict[str, Any], self._get(f"{path}{query_of(query)}"))
            yield from page["items"]
            remaining = None if remaining is None else remaining - len(page["items"])
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return


def _new_key() -> str:
    return os.urandom(16).hex()


def _job(job_id: str) -> str:
    """The path of a job. ``j-abc_3`` stands for ``j-abc[3]``, because shells expand brackets."""
    member = MEMBER.fullmatch(job_id)
    full_id = f"{member[1]}[{member[2]}]" if member else job_id
    return f"/v1/jobs/{quote(full_id, safe='')}"
