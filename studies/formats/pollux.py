"""Workloads of Pollux (OSDI'21) and Sia (SOSP'23).

Their jobs are elastic, and the file has no run times. Ours are estimates at the requested size, from
the artifacts' profiles; the results are those of rigid jobs.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import RowProblem, parse_count, parse_seconds, required
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

RUN_SECONDS: dict[tuple[str, int, int], int] = {
    ("bert", 12, 1): 13_614,
    ("bert", 48, 4): 3_572,
    ("bert", 384, 6): 2_640,
    ("bert", 384, 8): 2_480,
    ("bert", 384, 10): 1_862,
    ("bert", 384, 12): 1_562,
    ("bert", 384, 14): 1_519,
    ("bert", 384, 16): 1_335,
    ("cifar10", 128, 1): 4_028,
    ("cifar10", 512, 4): 1_165,
    ("cifar10", 1_024, 8): 1_318,
    ("cifar10", 2_048, 4): 1_254,
    ("cifar10", 2_048, 6): 825,
    ("cifar10", 2_048, 8): 826,
    ("cifar10", 4_096, 8): 904,
    ("cifar10", 4_096, 10): 660,
    ("cifar10", 4_096, 12): 572,
    ("cifar10", 4_096, 16): 449,
    ("deepspeech2", 20, 1): 19_439,
    ("deepspeech2", 80, 2): 9_823,
    ("deepspeech2", 80, 4): 6_376,
    ("deepspeech2", 160, 4): 4_982,
    ("deepspeech2", 160, 8): 6_140,
    ("deepspeech2", 320, 6): 3_952,
    ("deepspeech2", 320, 8): 3_501,
    ("deepspeech2", 640, 12): 2_542,
    ("imagenet", 1_600, 8): 79_621,
    ("imagenet", 1_600, 10): 63_419,
    ("imagenet", 3_200, 12): 57_231,
    ("imagenet", 3_200, 14): 50_802,
    ("imagenet", 3_200, 16): 44_072,
    ("imagenet", 3_200, 24): 31_682,
    ("imagenet", 6_400, 32): 26_207,
    ("imagenet", 6_400, 48): 18_963,
    ("ncf", 256, 1): 1_444,
    ("ncf", 512, 2): 938,
    ("ncf", 1_024, 4): 587,
    ("ncf", 2_048, 8): 927,
    ("ncf", 32_768, 1): 33,
    ("yolov3", 8, 1): 33_738,
    ("yolov3", 16, 2): 18_869,
    ("yolov3", 32, 4): 13_740,
    ("yolov3", 64, 4): 11_083,
    ("yolov3", 64, 8): 23_860,
    ("yolov3", 128, 16): 9_592,
    ("yolov3", 256, 12): 9_439,
    ("yolov3", 512, 10): 9_975,
    ("yolov3", 512, 14): 7_870,
}
"""Run times of the applications of the Pollux and Sia workloads at the requested size.

Seconds for (application, batch size, replicas): iterations to the end of the artifact's validation
profile at that batch size, times the step time of its four-GPU T4 nodes at those replicas."""


def _job(fields: Fields, _line: int, builder: TraceBuilder) -> TraceJob:
    name, submitted, application, replicas, batch = fields
    gpus = parse_count(replicas, "num_replicas", 1)
    return TraceJob(
        job_id=required(name, "name"),
        submitted_ms=parse_seconds(submitted, "time"),
        run_ms=_run_ms(application, parse_count(batch, "batch_size", 1), gpus, builder),
        name=intern(application),
        gpus=gpus,
    )


def _run_ms(application: str, batch: int, gpus: int, builder: TraceBuilder) -> int:
    """The profiled run time, or the GPU time of the nearest profile divided by the GPUs."""
    profiled = RUN_SECONDS.get((application, batch, gpus))
    if profiled is not None:
        return profiled * 1_000
    profiles = [key for key in RUN_SECONDS if key[0] == application]
    if not profiles:
        known = sorted({key[0] for key in RUN_SECONDS})
        raise RowProblem(f"no profile of application {application!r}; known: {', '.join(known)}")
    builder.count("jobs of a size that was not profiled: GPU time of the nearest profile")
    nearest = min(profiles, key=lambda key: (abs(key[1] - batch), abs(key[2] - gpus), key))
    return round(RUN_SECONDS[nearest] * nearest[2] * 1_000 / gpus)


FORMAT = TableFormat(
    name="pollux",
    title="Pollux (OSDI'21) and Sia (SOSP'23) workloads",
    columns=Columns(required=("name", "time", "application", "num_replicas", "batch_size")),
    make_job=_job,
    notes=("run times are estimates at the requested size, from the artifacts' profiles",),
)
