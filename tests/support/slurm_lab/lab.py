"""A Slurm cluster in one folder: starts, queries, breaks and removes it."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from bursar.model.errors import EngineFault, UserError
from tests.support.slurm_lab import conf, daemons
from tests.support.slurm_lab.conf import LabLocation
from tests.support.slurm_lab.daemons import Daemons
from tests.support.slurm_lab.lab_spec import LabPlan

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FOLDERS = ("etc", "run", "log", "spool", "state", "dev", "mysql", "work")
PACKAGES = ("slurm-wlm", "slurmdbd", "slurmrestd", "munge", "mariadb-server", "libnss-wrapper")
PROGRAMS = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "munged",
    "mariadbd",
    "sbatch",
    "sacct",
)
LOG_TRUNCATION = """exec 9<> <(:)
while :; do
  read -r -t "$2" -u 9 _
  while IFS= read -r -d '' file; do
    tail -c "$4" "$file" >"$file.old"
    : >"$file"
  done < <(find "$1" -type f -size +"$3"k ! -name '*.old' -print0)
done
"""
LOG_LIMITS = ("20", "8000", "1000000")
"""Seconds between checks, the size in KiB at which a log is truncated, and the bytes that are retained. All
writers append, so a log can be truncated while it is open."""
NEVER_OPENED_MAJOR = 195
"""The device number of NVIDIA GPUs. There is no driver behind it, and the devices are never opened."""


def missing_programs() -> list[str]:
    """Programs that a lab needs and that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PLAIN_PATH) is None]


class Lab:
    """``start`` returns when every node is idle; ``stop`` when all processes and files are gone."""

    def __init__(self, folder: Path, plan: LabPlan | None = None) -> None:
        self.folder = folder.resolve()
        self.plan = plan or LabPlan()
        self._last_failure = ""
        self._daemons = Daemons(self.folder, self.environment())

    @property
    def is_laid_out(self) -> bool:
        """Whether the folder contains a lab, even an incomplete one."""
        return any((self.folder / name).exists() for name in ("etc/lab.json", "run"))

    # -- for clients -------------------------------------------------------------------------------

    @property
    def conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def rest_socket(self) -> Path:
        return self.folder / "run" / "rest" / "rest.sock"

    def environment(self) -> dict[str, str]:
        """The variables with which Slurm's commands use this cluster."""
        variables = {"PATH": PLAIN_PATH, "SLURM_CONF": str(self.conf), "LANG": "C.UTF-8"}
        if self.has_users:
            variables["NSS_WRAPPER_PASSWD"] = str(self.folder / "etc" / "passwd")
            variables["NSS_WRAPPER_GROUP"] = str(self.folder / "etc" / "group")
            variables["LD_PRELOAD"] = "libnss_wrapper.so"
        return variables

    @property
    def has_users(self) -> bool:
        """Fake users need root, which can switch to them."""
        return bool(self.plan.users) and os.geteuid() == 0

    def run(self, *argv: str, user: str | None = None, timeout_seconds: float = 60) -> str:
        """Run a Slurm command, optionally as one of the lab's users; returns its output."""
        command = [*self._switch_user(user), *argv] if user else list(argv)
        try:
            done = subprocess.run(
                command,
                env={**self.environment(), "HOME": str(self.folder / "work")},
                cwd=self.folder / "work",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
                timeout=timeout_seconds,
            )
        except subprocess.CalledProcessError as error:
            message = (error.stderr or error.stdout).strip()
            raise EngineFault(f"{' '.join(argv)}: {message}", retry_after_seconds=1) from None
        except subprocess.TimeoutExpired:
            text = f"{' '.join(argv)}: no response within {timeout_seconds:g} s"
            raise EngineFault(text, retry_after_seconds=1) from None
        return done.stdout

    def _switch_user(self, user: str) -> list[str]:
        number = conf.FIRST_UID + self.plan.users.index(user)
        return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]

    # -- start ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Write the configuration, start all daemons, and wait until every node is idle."""
        absent = missing_programs()
        if absent:
            raise UserError(
                f"the Slurm lab needs programs that are not installed: {', '.join(absent)}.",
                fix=f"On Debian and Ubuntu: apt install {' '.join(PACKAGES)}, or 'make slurm-lab'.",
                code="no-slurm",
            )
        if self._daemons.names():
            raise UserError(
                f"{self.folder} already has a Slurm lab.",
                fix="Stop it first ('make slurm-lab DO=stop'), or name another folder.",
                code="lab-exists",
            )
        try:
            self._write_files()
            logs = str(self.folder / "log")
            self._daemons.start("logs", ["bash", "-c", LOG_TRUNCATION, "logs", logs, *LOG_LIMITS])
            self._start_munge()
            if self.plan.database:
                self._start_database()
            self.start_controller()
            for node in self.plan.nodes:
                self.start_node(node.name)
            if self.plan.rest:
                self.start_rest()
            self._wait_for_nodes()
            self._load_associations()
        except BaseException:
            self.stop(keep_logs=True)
            raise

    def _write_files(self) -> None:
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "work").chmod(0o1777)
        ports = _free_ports(3 + len(self.plan.nodes))
        place = LabLocation(
            folder=self.folder,
            host=socket.gethostname().split(".")[0],
            user=pwd.getpwuid(os.geteuid()).pw_name,
            controller_port=ports[0],
            database_port=ports[1],
            accounting_port=ports[2],
            node_ports=tuple(ports[3:]),
            password=secrets.token_hex(16),
        )
        self._place = place
        etc = self.folder / "etc"
        for name in ("passwd", "group"):
            system_users = Path("/etc", name).read_text(encoding="utf-8")
            lab_users = conf.user_lines(self.plan.users, self.folder / "work")[name == "group"]
            (etc / name).write_text(system_users + lab_users, encoding="utf-8")
        self._make_devices()
        _write(etc / "munge.key", secrets.token_bytes(128), 0o600)
        self.conf.write_text(conf.slurm_conf(self.plan, place), encoding="utf-8")
        (etc / "topology.conf").write_text(conf.topology_conf(self.plan.nodes), encoding="utf-8")
        gres = conf.gres_conf(self.plan.nodes, self.folder / "dev")
        (etc / "gres.conf").write_text(gres, encoding="utf-8")
        _write(etc / "slurmdbd.conf", conf.slurmdbd_conf(place).encode(), 0o600)
        (etc / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        description = {"plan": asdict(self.plan), "rest": str(self.rest_socket)}
        (etc / "lab.json").write_text(json.dumps(description, indent=1), encoding="utf-8")

    def _make_devices(self) -> None:
        """Create character devices, or links to one without permission. Slurm never opens them."""
        most = max((len(node.gpus) for node in self.plan.nodes), default=0)
        for number in range(most):
            path = self.folder / "dev" / f"nvidia{number}"
            try:
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(NEVER_OPENED_MAJOR, number))
            except PermissionError:
                path.symlink_to("/dev/null")

    def _start_munge(self) -> None:
        run, log = self.folder / "run", self.folder / "log"
        run.chmod(0o755)
        # munged refuses a log that other users may write to.
        _write(log / "munged.log", b"", 0o600)
        self._daemons.start(
            "munged",
            [
                *("munged", "--foreground", f"--key-file={self.folder / 'etc' / 'munge.key'}"),
                *(f"--socket={run / 'munge.socket'}", f"--pid-file={run / 'munged.own'}"),
                *(f"--log-file={log / 'munged.log'}", f"--seed-file={run / 'munged.seed'}"),
                "--num-threads=4",
            ],
        )

    def _start_database(self) -> None:
        folder, user = self.folder / "mysql", "mysql"
        if os.geteuid() != 0:
            user = self._place.user
        shutil.chown(folder, user)
        own = [f"--user={user}", f"--datadir={folder}"]
        self.run(
            *("mariadb-install-db", "--no-defaults", *own, "--skip-test-db"),
            *(
                "--auth-root-authentication-method=socket",
                f"--auth-root-socket-user={self._place.user}",
            ),
        )
        self._daemons.start(
            "mariadbd",
            [
                *("mariadbd", "--no-defaults", *own, f"--socket={folder / 'sock'}"),
                *(f"--pid-file={folder / 'mariadbd.own'}", "--bind-address=127.0.0.1"),
                *(f"--port={self._place.database_port}", "--innodb-buffer-pool-size=64M"),
                *("--innodb-lock-wait-timeout=900", "--innodb-log-file-size=32M", "--skip-log-bin"),
                *("--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"),
            ],
        )
        client = ("--no-defaults", f"--user={self._place.user}", f"--socket={folder / 'sock'}")
        self._require(
            "the database did not respond",
            lambda: self._responds("mariadb-admin", *client, "ping"),
            20,
        )
        account = "'slurm'@'127.0.0.1'"
        self.run(
            *("mariadb", *client, "-e"),
            f"create user {account} identified by '{self._place.password}';"
            f"create database slurm_acct_db; grant all on slurm_acct_db.* to {account};",
        )
        self.start_accounting()
        self.run("sacctmgr", "-i", "add", "cluster", self.plan.cluster)

    def _responds(self, *argv: str) -> bool:
        try:
            self.run(*argv, timeout_seconds=3)
        except EngineFault as fault:
            self._last_failure = str(fault)
            return False
        self._last_failure = ""
        return True

    def _require(self, what: str, condition: Callable[[], bool], timeout_seconds: float) -> None:
        """Wait for a condition; on timeout raise an error with the last failure."""
        if not daemons.waited_for(condition, timeout_seconds):
            cause = self._fatal() or self._last_failure
            text = f"Slurm lab: {what} within {timeout_seconds:g} s ({cause}); see {self.folder / 'log'}"
            raise EngineFault(text, retry_after_seconds=5)

    def _fatal(self) -> str:
        """The first fatal error in the output of the daemons."""
        for file in sorted((self.folder / "log").glob("*.out")):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                if "fatal" in line:
                    return line
        return ""

    def _wait_for_nodes(self) -> None:
        wanted = len(self.plan.nodes)
        self._require("some nodes did not become idle", lambda: self.idle_nodes() >= wanted, 90)

    def idle_nodes(self) -> int:
        """The number of idle nodes."""
        try:
            return len(set(self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()))
        except EngineFault:
            return 0

    def _load_associations(self) -> None:
        for arguments in self.plan.sacctmgr:
            self.run("sacctmgr", "-i", "-Q", *arguments)
        if self.plan.associations:
            file = self.folder / "etc" / "associations.cfg"
            file.write_text(self.plan.associations, encoding="utf-8")
            self.run("sacctmgr", "-i", "-Q", "load", f"file={file}")

    # -- single daemons ----------------------------------------------------------------------------

    def start_accounting(self) -> None:
        self._daemons.start("slurmdbd", ["slurmdbd", "-D"])
        self._require(
            "slurmdbd did not respond",
            lambda: self._responds("sacctmgr", "-n", "list", "cluster"),
            20,
        )

    def start_controller(self) -> None:
        self._daemons.start("slurmctld", ["slurmctld", "-D"])
        self._require("slurmctld did not respond", self.controller_responds, 20)

    def controller_responds(self) -> bool:
        return self._responds("scontrol", "ping") and "UP" in self.run("scontrol", "ping")

    def start_node(self, name: str) -> None:
        (self.folder / "spool" / name).mkdir(exist_ok=True)
        self._daemons.start(f"slurmd.{name}", ["slurmd", "-D", "-N", name])

    def start_rest(self) -> None:
        """Start slurmrestd as the user of the lab; its check for a dedicated user is disabled."""
        self.rest_socket.parent.mkdir(exist_ok=True, mode=0o700)
        self.rest_socket.unlink(missing_ok=True)
        plugins = "openapi/v0.0.38,openapi/dbv0.0.38" if self.plan.database else "openapi/v0.0.38"
        self._daemons.start(
            "slurmrestd",
            [
                *("slurmrestd", "-a", "rest_auth/local", "-t", "4"),
                *("-s", plugins, f"unix:{self.rest_socket}"),
            ],
            {"SLURMRESTD_SECURITY": "disable_user_check"},
        )
        self._require("slurmrestd did not open its socket", self.rest_socket.exists, 10)

    def kill(self, name: str) -> None:
        """Kill ``slurmctld``, ``slurmrestd``, ``slurmdbd`` or ``slurmd.NODE`` with SIGKILL, as in a crash."""
        self._daemons.end(name, signal.SIGKILL)

    def pid(self, name: str) -> int | None:
        return self._daemons.pid(name)

    def cut_power(self, node: str) -> None:
        """Kill a node's slurmd and all processes of its jobs simultaneously."""
        self.kill(f"slurmd.{node}")
        daemons.kill_simultaneously(lambda: self._job_processes(node))

    def _job_processes(self, node: str = "*") -> list[int]:
        """Step daemons, identified by the log they have open, and their descendants; parents first."""
        logs = f"{self.folder}/log/slurmd.{node}.log"
        stepds = daemons.holding_open("slurmstepd", logs)
        return list(dict.fromkeys([*stepds, *daemons.descendants(stepds)]))

    # -- stop --------------------------------------------------------------------------------------

    def stop(self, *, keep_logs: bool = False) -> None:
        """End all processes of the lab, by id, and remove its folder. Refuses a folder without a lab."""
        if self.folder.exists() and os.listdir(self.folder) and not self.is_laid_out:
            raise UserError(
                f"{self.folder} holds no Slurm lab, and is not removed.",
                fix="Name the folder that the lab was started with.",
                code="no-lab",
            )
        names = self._daemons.names()
        if "slurmctld" in names and self.pid("slurmctld"):
            self._cancel_all_jobs()
        nodes = [name for name in names if name.startswith("slurmd.")]
        first = ["slurmrestd", *nodes]
        self._daemons.end_all([name for name in first if name in names])
        daemons.signal_each(self._job_processes(), signal.SIGKILL)
        for name in ("slurmctld", "slurmdbd", "mariadbd", "munged", "logs"):
            if name in names:
                self._daemons.end(name, timeout_seconds=10.0)
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _cancel_all_jobs(self) -> None:
        with contextlib.suppress(EngineFault):
            ids = self.run("squeue", "-h", "-o", "%i", timeout_seconds=10).split()
            if ids:
                self.run("scancel", "--full", "--signal=KILL", *ids, timeout_seconds=10)

    def status(self) -> Mapping[str, int | None]:
        """The process id of each daemon that was started; None if it is dead."""
        return {name: self.pid(name) for name in self._daemons.names()}


def _free_ports(count: int) -> list[int]:
    """Free ports. All are bound at the same time, so that they are distinct."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _write(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
