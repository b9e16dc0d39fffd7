"""Print this machine's cards as `TYPE:NUMBER`, one type a line; nothing where there are none."""

from collections import Counter

from cluster.agent.gpus import read_nvml
from cluster.agent.probe import NoCards


def main() -> None:
    """Ask NVML, under the names that the agent gives to GPU types."""
    try:
        counted = Counter(card.gpu_type for card in read_nvml() if card.gpu_type)
    except NoCards:
        return
    for name, number in counted.items():
        print(f"{name}:{number}")


if __name__ == "__main__":
    main()
