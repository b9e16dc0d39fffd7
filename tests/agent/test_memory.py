"""Whether a killed command ran out of memory, by the kernel's counters."""

from pathlib import Path

import pytest

from cluster.agent import memory


class Kernel:
    """Counters in files of our own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put none of them there yet."""
        self.folder = folder
        monkeypatch.setattr(memory, "OWN_GROUPS", str(folder / "groups"))
        monkeypatch.setattr(memory, "HOST_COUNTER", str(folder / "vmstat"))
        monkeypatch.setattr(
            memory,
            "COUNTERS",
            {"0": f"{folder}/two{{path}}/memory.events", "memory": f"{folder}/one{{path}}/control"},
        )

    def groups(self, *lines: str) -> None:
        (self.folder / "groups").write_text("".join(f"{line}\n" for line in lines))

    def counts(self, name: str, kills: int) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"low 0\noom 7\noom_kill {kills}\noom_kill_disable 0\n")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Return a kernel that counts nothing."""
    return Kernel(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("lines", "counter"),
    [
        (["0::/jobs/a"], "two/jobs/a/memory.events"),
        (["0::/"], "two/memory.events"),
        (["9:cpu,cpuacct:/x", "4:memory:/jobs/a", "0::/"], "one/jobs/a/control"),
        (["3:cpuset,memory:/jobs/a:b"], "one/jobs/a:b/control"),
    ],
)
def test_a_group_s_counter_is_found_in_both_versions(kernel: Kernel, lines: list[str], counter: str) -> None:
    kernel.groups(*lines)
    assert memory.group_kills() is None
    kernel.counts(counter, 3)
    assert memory.group_kills() == 3


@pytest.mark.parametrize(
    ("code", "number", "said"),
    [(None, 9, "oom"), (137, None, "oom"), (1, None, ""), (None, 15, ""), (0, None, "")],
)
def test_only_a_killed_command_is_put_down_to_memory(
    kernel: Kernel, code: int | None, number: int | None, said: str
) -> None:
    kernel.groups("0::/a")
    kernel.counts("two/a/memory.events", 1)
    watch = memory.Watch()
    kernel.counts("two/a/memory.events", 2)
    assert watch.cause(code, number) == said


def test_a_group_in_which_the_kernel_killed_nobody_was_killed_by_somebody(kernel: Kernel) -> None:
    kernel.groups("0::/a")
    kernel.counts("two/a/memory.events", 1)
    kernel.counts("vmstat", 1)
    watch = memory.Watch()
    kernel.counts("vmstat", 2)  # another group's
    assert watch.cause(None, 9) == ""


@pytest.mark.parametrize(
    ("before", "after", "said"), [(4, 4, ""), (4, 5, "maybe_oom"), (None, None, "maybe_oom")]
)
def test_without_a_counter_of_the_group_the_host_s_says_whether_it_could_be(
    kernel: Kernel, before: int | None, after: int | None, said: str
) -> None:
    if before is not None:
        kernel.counts("vmstat", before)
    watch = memory.Watch()
    if after is not None:
        kernel.counts("vmstat", after)
    assert watch.cause(None, 9) == said
