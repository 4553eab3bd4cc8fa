"""The configuration files of a lab, as text. Pure: what is written where is for ``lab.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bursar.engines.slurm.driven.pacing import FAST_LINES
from tests.support.slurm_lab.lab_spec import LabNode, LabPlan

FIRST_UID = 20_001
WEIGHTS = {"t4": "1.0", "a100": "4.0"}
"""What a GPU counts in the priorities of a governed cluster."""
PLAIN_LINE = (
    "SchedulerParameters=bf_interval=2,bf_continue,bf_max_job_test=1000,bf_resolution=10,"
    "bf_window=10080,sched_interval=2,default_queue_depth=1000,batch_sched_delay=0,"
    "preempt_youngest_first"
)
"""For a Slurm that decides by itself: it looks at a long queue of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabLocation:
    """Where this lab is: its folder, its ports, and what the machine calls itself."""

    folder: Path
    host: str
    user: str
    controller_port: int
    database_port: int
    accounting_port: int
    node_ports: tuple[int, ...]
    password: str

    def run(self, name: str) -> Path:
        return self.folder / "run" / name

    def log(self, name: str) -> Path:
        return self.folder / "log" / name


def slurm_conf(plan: LabPlan, place: LabLocation) -> str:
    """Loopback only, no cgroups, nothing bound to a CPU, short timers."""
    lines = [
        *_identity(plan, place),
        *_files(place),
        *_timers(plan),
        *_scheduling(plan),
        *(
            _accounting(place, plan)
            if plan.database
            else ("AccountingStorageType=accounting_storage/none",)
        ),
        *(
            _node_line(node, port, place)
            for node, port in zip(plan.nodes, place.node_ports, strict=True)
        ),
        *_partitions(plan),
        *plan.slurm_conf,
    ]
    return "\n".join(lines) + "\n"


def _identity(plan: LabPlan, place: LabLocation) -> Iterator[str]:
    yield f"ClusterName={plan.cluster}"
    yield f"SlurmctldHost={place.host}(127.0.0.1)"
    yield f"SlurmUser={place.user}"
    yield f"SlurmdUser={place.user}"
    yield "AuthType=auth/munge"
    yield f"AuthInfo=socket={place.run('munge.socket')},cred_expire=5"
    yield "CredType=cred/munge"
    yield f"SlurmctldPort={place.controller_port}"
    yield "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"
    yield "PrivateData=cloud"
    yield "MailProg=/bin/true"


def _files(place: LabLocation) -> Iterator[str]:
    yield f"StateSaveLocation={place.folder / 'state'}"
    yield f"SlurmdSpoolDir={place.folder / 'spool'}/%n"
    yield f"SlurmctldPidFile={place.run('slurmctld.own')}"
    yield f"SlurmdPidFile={place.run('slurmd.%n.own')}"
    yield f"SlurmctldLogFile={place.log('slurmctld.log')}"
    yield f"SlurmdLogFile={place.log('slurmd.%n.log')}"
    yield "SlurmctldDebug=info"
    yield "SlurmdDebug=info"


def _timers(plan: LabPlan) -> Iterator[str]:
    """``cred_expire`` and these make a test of minutes one of seconds."""
    yield "MpiDefault=none"
    yield "ProctrackType=proctrack/linuxproc"
    yield "TaskPlugin=task/none"
    yield "JobAcctGatherType=jobacct_gather/linux"
    yield "JobAcctGatherFrequency=task=10"
    yield "ReturnToService=2"
    yield "SlurmdParameters=config_overrides"
    yield "SlurmctldTimeout=30"
    yield f"SlurmdTimeout={plan.slurmd_timeout_seconds}"
    yield "InactiveLimit=0"
    yield f"MinJobAge={plan.min_job_age_seconds}"
    yield "KillWait=5"
    yield "UnkillableStepTimeout=30"
    yield "BatchStartTimeout=20"
    yield "CompleteWait=0"
    yield "Waittime=0"
    yield "MessageTimeout=10"
    yield "TCPTimeout=2"
    yield "MaxJobCount=50000"
    yield "MaxArraySize=20001"
    yield "TreeWidth=65533"


def _scheduling(plan: LabPlan) -> Iterator[str]:
    yield "SchedulerType=sched/backfill"
    yield "SlurmctldParameters=preempt_send_user_signal"
    yield from FAST_LINES if plan.quick else (PLAIN_LINE,)
    yield "SelectType=select/cons_tres"
    yield "SelectTypeParameters=CR_CPU_Memory"
    yield "GresTypes=gpu,shard"
    yield "DefMemPerCPU=100"
    yield "TopologyPlugin=topology/tree"
    if not plan.database:
        yield "PriorityType=priority/basic"
    else:
        yield from _priorities()
    yield plan.preempt
    yield "PreemptExemptTime=0"
    yield "JobRequeue=1"


def _priorities() -> Iterator[str]:
    """They need the accounting database."""
    yield "PriorityType=priority/multifactor"
    yield "PriorityDecayHalfLife=7-0"
    yield "PriorityCalcPeriod=1"
    yield "PriorityMaxAge=7-0"
    yield "PriorityWeightAge=1000"
    yield "PriorityWeightFairshare=10000"
    yield "PriorityWeightQOS=5000"
    yield "PriorityWeightPartition=1000"
    yield "PriorityWeightJobSize=100"


def _accounting(place: LabLocation, plan: LabPlan) -> Iterator[str]:
    """The munge socket is named twice: the link to slurmdbd reads only its own setting."""
    yield "AccountingStorageType=accounting_storage/slurmdbd"
    yield "AccountingStorageHost=127.0.0.1"
    yield f"AccountingStoragePort={place.accounting_port}"
    yield f"AccountingStoragePass={place.run('munge.socket')}"
    kinds = sorted({kind for node in plan.nodes for kind in node.gpus})
    tres = ["gres/gpu", *(f"gres/gpu:{kind}" for kind in kinds)]
    yield f"AccountingStorageTRES={','.join(tres)}"
    if plan.enforce:
        yield f"AccountingStorageEnforce={plan.enforce}"
    yield "AccountingStoreFlags=job_comment"


def _node_line(node: LabNode, port: int, place: LabLocation) -> str:
    parts = [
        f"NodeName={node.name} NodeHostname={place.host} NodeAddr=127.0.0.1 Port={port}",
        f"CPUs={node.cpus} RealMemory={node.memory_mib}",
    ]
    if node.gpus:
        parts.append(f"Gres={node.gres()}")
    if node.features:
        parts.append(f"Feature={','.join(node.features)}")
    return " ".join(parts)


def _partitions(plan: LabPlan) -> Iterator[str]:
    kinds = sorted({kind for node in plan.nodes for kind in node.gpus} & set(WEIGHTS))
    words = ["CPU=0.0", *(f"GRES/gpu:{kind}={WEIGHTS[kind]}" for kind in kinds)]
    weights = f"TRESBillingWeights={','.join(words)}" if plan.database else ""
    for partition in plan.partitions:
        nodes = ",".join(partition.nodes) or "ALL"
        yield (
            f"PartitionName={partition.name} Nodes={nodes} MaxTime=7-0 DefaultTime=60 "
            f"{weights} State=UP {partition.more}"
        ).rstrip()


def gres_conf(nodes: Iterable[LabNode], devices: Path) -> str:
    """Slurm takes the index of a GPU from the number at the end of its file's name."""
    lines = []
    for node in nodes:
        for kind, indices in node.types().items():
            files = ",".join(str(index) for index in indices)
            lines.append(
                f"NodeName={node.name} Name=gpu Type={kind} File={devices}/nvidia[{files}]"
            )
        if node.shards:
            lines.append(f"NodeName={node.name} Name=shard Count={node.shards * len(node.gpus)}")
    return "\n".join(lines) + "\n"


def topology_conf(nodes: Iterable[LabNode]) -> str:
    """Racks under one core switch."""
    below: dict[str, list[str]] = {}
    for node in nodes:
        below.setdefault(node.switch, []).append(node.name)
    lines = [f"SwitchName={name} Nodes={','.join(names)}" for name, names in sorted(below.items())]
    lines.append(f"SwitchName=core Switches={','.join(sorted(below))}")
    return "\n".join(lines) + "\n"


def slurmdbd_conf(place: LabLocation) -> str:
    """Slurm wants it for its owner alone."""
    return "\n".join(
        [
            "AuthType=auth/munge",
            f"AuthInfo=socket={place.run('munge.socket')}",
            f"DbdHost={place.host}",
            "DbdAddr=127.0.0.1",
            f"DbdPort={place.accounting_port}",
            f"SlurmUser={place.user}",
            "DebugLevel=info",
            f"LogFile={place.log('slurmdbd.log')}",
            f"PidFile={place.run('slurmdbd.own')}",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            f"StoragePort={place.database_port}",
            "StorageUser=slurm",
            f"StoragePass={place.password}",
            "StorageLoc=slurm_acct_db",
            "CommunicationParameters=NoInAddrAny",
            "",
        ]
    )


def user_lines(users: Iterable[str], home: Path) -> tuple[str, str]:
    """Lines for a passwd and a group file."""
    people, groups = [], []
    for number, user in enumerate(users, start=FIRST_UID):
        people.append(f"{user}:x:{number}:{number}::{home}:/bin/bash\n")
        groups.append(f"{user}:x:{number}:\n")
    return "".join(people), "".join(groups)
