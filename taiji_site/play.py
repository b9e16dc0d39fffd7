"""What the small world is made of: names, shares of the cards, and three tasks to start from."""

from typing import Any

BUSINESSES = {"ads": "Advertising", "speech": "Speech"}

SAVED_EVERY_S = 10  # seconds; what the loop below does with its steps
# A loop that counts, saves when asked or every ten steps, and goes on from what was saved.
COUNTING = """\
cd "$TAIJI_TASK_DIR"
step=$(cat saved 2>/dev/null || echo 0)
rm -f save
echo "going on from step $step on cards $CUDA_VISIBLE_DEVICES"
while [ "$step" -lt 600 ]; do
  sleep 1
  step=$((step + 1))
  echo "step $step"
  if [ -e save ] || [ $((step % 10)) -eq 0 ]; then
    echo "$step" > saved.new && mv saved.new saved && rm -f save
  fi
done
"""
# Runs beside the loop when the task is evicted: asks it to save, and waits until it has.
SAVING = """\
cd "$TAIJI_TASK_DIR"
touch save
while [ -e save ]; do sleep 0.2; done
echo "saved step $(cat saved)"
"""
WORKING = """\
echo "training on cards $CUDA_VISIBLE_DEVICES of $(hostname)"
for epoch in 1 2 3 4 5 6; do sleep 10; echo "epoch $epoch done"; done
"""


def quota(flag: str, cards: int) -> int:
    """Return the cards that a business may hold with high tasks: two thirds, or the rest."""
    most = (2 * cards + 2) // 3
    return most if flag == "ads" else cards - most


def templates(cards: dict[str, int]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the templates by name: what each shows, and its config."""
    first, every = next(iter(cards)), ",".join(cards)
    half = max(1, quota("ads", cards[first]) // 2)
    return {
        "High: guaranteed": (
            "Within the quota it starts at once, and makes elastic tasks leave if it must.",
            _config(half, first, WORKING, is_elasticity=False),
        ),
        "Elastic: checkpoints": (
            "Uses idle cards; when it is evicted it saves, and it comes back by itself and goes on.",
            _config(
                max(1, cards[first] // 4),
                first,
                COUNTING,
                is_elasticity=True,
                exit_cmd=SAVING,
                enable_evicted_pulled_up=True,
                checkpoint_interval=SAVED_EVERY_S,
            ),
        ),
        "Auto: any type, kept for a look": (
            "High while quota lasts, else elastic, on whatever is free; its place is kept for 30 minutes.",
            _config(1, every, WORKING, is_elasticity="auto", keep_alive=True),
        ),
    }


def _config(cards: int, types: str, command: str, **more: object) -> dict[str, Any]:
    """Return a config of no business: that is filled in for whoever opens the template."""
    return {
        "host_num": 1,
        "host_gpu_num": cards,
        "GPUName": types,
        "start_cmd": command,
        **more,
    }
