"""A wall clock that is off, for one process: a library that is loaded before libc's, and a file with the offset."""

import ctypes
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

from launch.words import Refusal

# Asks the kernel itself, and adds what stands in the file. Clocks that only go forward are left alone: no
# administrator and no time server moves those either.
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *offset;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) offset = found;
    if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (failed || !offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    double whole = floor(*offset);
    at->tv_sec += (time_t)whole;
    at->tv_nsec += (long)((*offset - whole) * 1e9);
    if (at->tv_nsec >= 1000000000L) { at->tv_nsec -= 1000000000L; at->tv_sec += 1; }
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def build(folder: Path) -> Path:
    """Compile the library into `folder`; raises Refusal where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Refusal("The clocks of hosts are moved by a library compiled here: install a C compiler (gcc).")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refusal(f"The library that moves clocks does not compile:\n{done.stderr.strip()}")
    return library


class Clock:
    """The wall clock of the processes that are started with its environment."""

    def __init__(self, library: Path, file: Path) -> None:
        """Keep the offset in `file`; it is right at first."""
        self._library, self._file = library, file
        file.write_bytes(struct.pack("d", 0.0))

    @property
    def env(self) -> dict[str, str]:
        """Return what a process needs to see this clock."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}

    def be_off(self, seconds: float) -> None:
        """Move the clock, at once and for every process that looks at it."""
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), ctypes.sizeof(ctypes.c_double)) as view:
            view[:] = struct.pack("d", seconds)
