"""What GPU types are called: NVML's name of a card without its brand, a slice by its profile, a share by its part."""

import re

# Words of NVML's names that say who sells a card, not what kind it is.
BRANDS = {"nvidia", "tesla", "geforce", "quadro"}
# Words of a type that say how big its memory is or how it is plugged in: a slice's profile says enough of that.
FORM = re.compile(r"\d+GB|SXM\d*|PCIe|NVL\d*|HBM\w*", re.IGNORECASE)
LONGEST = 64


def gpu_type(name: str) -> str:
    """Return the GPU type that NVML's name of a card stands for.

    The brand words go, what is left is joined with `-`: "Tesla P40" → "P40", "NVIDIA A100-SXM4-80GB" →
    "A100-SXM4-80GB", "NVIDIA H100 80GB HBM3" → "H100-80GB-HBM3", "NVIDIA GeForce RTX 3090" → "RTX-3090".
    """
    words = [word for word in name.split() if word.lower() not in BRANDS]
    return "-".join(words).replace(",", "-")[:LONGEST]


def slice_type(card: str, profile: str) -> str:
    """Return the type of a MIG slice: "A100-SXM4-80GB" and "1g.10gb" → "A100-1g.10gb"."""
    model = [word for word in card.split("-") if not FORM.fullmatch(word)]
    return "-".join([*model, profile.replace(" ", "-")])[:LONGEST]


def share_type(card: str, shares: int) -> str:
    """Return the type of one of so many shares of a card: "A10" → "A10/4"."""
    return f"{card[: LONGEST - 4]}/{shares}"
