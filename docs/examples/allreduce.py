"""Add up numbers over all members of a gang: a ring of TCP connections in plain Python.

Each member runs this with what the platform gives it: RANK, WORLD_SIZE, MASTER_PORT, and TAIJI_HOSTFILE with
the addresses of all members in the order of rank. Submit it with `exec_start_in_all_mpi_pods`:

    {"business_flag": "ads", "host_num": 2, "host_gpu_num": 1, "exec_start_in_all_mpi_pods": true,
     "start_cmd": "python3 \\"$TAIJI_STORAGE/allreduce.py\\""}

The file has to lie in the business's folder of the storage. It needs two hosts with cards of one type and an address
each; agents on one machine take `--address 127.0.0.2` and so on.
"""

import os
import socket
import struct
import time

PATIENCE_S = 20.0
TRY_S = 0.1


def all_reduce(values: list[float], rank: int, addresses: list[str], port: int) -> list[float]:
    """Return the sums of `values` over all members, the same on each; every one of them has to take part.

    Partial sums go around the ring once, then the sums go around once more. Raises OSError where a member
    cannot be reached or leaves.
    """
    world = len(addresses)
    if world == 1:
        return values
    # Every member listens at its own address and calls its right neighbour there.
    with socket.create_server((addresses[rank], port)) as door:
        door.settimeout(PATIENCE_S)
        with _call(addresses[rank], addresses[(rank + 1) % world], port) as right, door.accept()[0] as left:
            left.settimeout(PATIENCE_S)
            if rank == 0:
                _send(right, values)
                sums = _receive(left, len(values))
                _send(right, sums)
                _receive(left, len(values))  # they came around: nobody waits for them any more
                return sums
            partial = _receive(left, len(values))
            _send(right, [mine + theirs for mine, theirs in zip(values, partial, strict=True)])
            sums = _receive(left, len(values))
            _send(right, sums)
            return sums


def _call(here: str, there: str, port: int) -> socket.socket:
    """Return a connection to a member; all start together, so one that does not listen yet will soon."""
    for left in reversed(range(int(PATIENCE_S / TRY_S))):
        try:
            return socket.create_connection((there, port), PATIENCE_S, source_address=(here, 0))
        except ConnectionRefusedError:
            if not left:
                raise
            time.sleep(TRY_S)
    raise AssertionError("the last try returns or raises")


def _send(to: socket.socket, values: list[float]) -> None:
    to.sendall(struct.pack(f"<{len(values)}d", *values))


def _receive(source: socket.socket, count: int) -> list[float]:
    data = b""
    while len(data) < 8 * count:
        part = source.recv(8 * count - len(data))
        if not part:
            raise ConnectionError("a member left before the sums were there")
        data += part
    return list(struct.unpack(f"<{count}d", data))


def main() -> None:
    """Add up this member's numbers with those of the others, and print the sums."""
    rank = int(os.environ["RANK"])
    with open(os.environ["TAIJI_HOSTFILE"]) as file:
        addresses = [line.split()[0] for line in file if line.strip()]
    values = [float(rank + 1), float(10 ** (rank + 1))]
    sums = all_reduce(values, rank, addresses, int(os.environ["MASTER_PORT"]))
    print(f"rank {rank} of {len(addresses)}: sums {sums}", flush=True)


if __name__ == "__main__":
    main()
