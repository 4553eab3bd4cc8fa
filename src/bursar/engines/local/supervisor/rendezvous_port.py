"""Reserves a rendezvous port for the ranks of a gang, unique on this machine."""

from __future__ import annotations

import socket
import zlib

FIRST, COUNT = 20_000, 12_000
"""Below the kernel's ephemeral ports."""


def hold_port(seed: str) -> tuple[int, socket.socket]:
    """A free port, and a socket that reserves it until the attempt process ends.

    The port itself must stay free for the job. The reservation is a name in the kernel's abstract
    socket namespace: all Bursars of the machine see it, and it leaves no file behind.
    """
    start = zlib.crc32(seed.encode()) % COUNT
    for step in range(COUNT):
        port = FIRST + (start + step) % COUNT
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0bursar-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            continue
        return port, held
    raise OSError("no port between 20,000 and 32,000 is free")
