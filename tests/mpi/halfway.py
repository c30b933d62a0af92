"""Half the round trip of 8 bytes between two ranks: the median of many, in microseconds."""

import statistics
import time

from mpi4py import MPI

ROUNDS, WARM_UP = 10_000, 1_000

world = MPI.COMM_WORLD
buffer = bytearray(8)
times = []
for turn in range(WARM_UP + ROUNDS):
    start = time.perf_counter_ns()
    if world.rank == 0:
        world.Send([buffer, MPI.BYTE], dest=1)
        world.Recv([buffer, MPI.BYTE], source=1)
    else:
        world.Recv([buffer, MPI.BYTE], source=0)
        world.Send([buffer, MPI.BYTE], dest=0)
    if turn >= WARM_UP:
        times.append(time.perf_counter_ns() - start)
if world.rank == 0:
    quick = sorted(times)[len(times) // 100]
    print(f"median {statistics.median(times) / 2000:.2f}, quickest 1 % {quick / 2000:.2f}", flush=True)
