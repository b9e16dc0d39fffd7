"""Cards by NVML, here a stand-in of a few lines, and what happens where there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.agent.cards import Card, Cards, NoCards, gpu_type, simulated
from tests.agent.conftest import ROOT

NVML = """
#include <string.h>
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) {
    strncpy(s, h == (void *)1 ? "GPU-a" : "GPU-b", n);
    return 0;
}
int nvmlDeviceGetName(void *h, char *s, unsigned n) { strncpy(s, "Tesla P40", n); return 0; }
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *h, struct memory *m) {
    if (h == (void *)2) return 15;  /* GPU is lost */
    m->total = 22919ull << 20;
    return 0;
}
const char *nvmlErrorString(int code) { return "GPU is lost"; }
"""

READ = """
import json
from cluster.agent.cards import NoCards, read_nvml
try:
    print(json.dumps([card.report() for card in read_nvml()]))
except NoCards as fault:
    print(json.dumps(str(fault)))
"""


def read(libraries: Path) -> object:
    """Return what a fresh Python reads where `libraries` is searched first."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    command = [sys.executable, "-c", READ]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    answer: object = json.loads(found.stdout)
    return answer


def test_nvml_s_cards_are_reported_and_one_that_is_lost_is_broken(tmp_path: Path) -> None:
    source = tmp_path / "nvml.c"
    source.write_text(NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    card = {"gpu_type": "P40", "memory_mib": 22919, "state": "ok", "reason": ""}
    broken = {"memory_mib": 0, "state": "broken", "reason": "NVML says: GPU is lost"}
    assert read(tmp_path) == [
        {**card, "index": 0, "uuid": "GPU-a"},
        {**card, **broken, "index": 1, "uuid": "GPU-b"},
    ]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has GPUs")
def test_without_nvml_there_are_no_cards_and_a_sentence(tmp_path: Path) -> None:
    assert str(read(tmp_path)).startswith("NVML cannot be used (")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Tesla P40", "P40"),
        ("Tesla M40", "M40"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090"),
        ("NVIDIA H200", "H200"),
    ],
)
def test_a_gpu_type_is_the_card_s_name_without_its_brand(name: str, kind: str) -> None:
    assert gpu_type(name) == kind


def test_simulated_cards_are_numbered_over_their_types() -> None:
    cards = simulated([("P40", 2), ("M40", 1)])
    assert [(card.index, card.gpu_type) for card in cards] == [(0, "P40"), (1, "P40"), (2, "M40")]


def test_a_broken_card_that_no_longer_says_what_it_is_stays_what_it_was() -> None:
    good = Card(index=0, uuid="GPU-a", gpu_type="P40", memory_mib=22919)
    mute = Card(index=0, uuid="", gpu_type="", state="broken", reason="NVML says: GPU is lost")
    answers = iter([(good,), (mute,), (mute, Card(index=1, uuid="", gpu_type="", state="broken"))])
    cards = Cards(lambda: next(answers))
    assert cards.refresh()
    assert cards.refresh()
    assert [(card.uuid, card.gpu_type, card.state) for card in cards.now] == [("GPU-a", "P40", "broken")]
    assert not cards.refresh()


def test_a_driver_that_goes_away_takes_its_cards_along() -> None:
    def read() -> tuple[Card, ...]:
        raise NoCards("NVML cannot be used (Driver Not Loaded)")

    cards = Cards(read)
    cards.now = simulated([("P40", 1)])
    assert cards.refresh()
    assert cards.now == ()
