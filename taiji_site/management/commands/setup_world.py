"""The small world to play in: a region, the types of the cards at hand, two businesses, three templates."""

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management import BaseCommand, CommandError
from django.db import transaction

from cluster.models import GpuType, Region
from jobs.models import Template
from launch.programs import REGION
from quotas.models import Business, DefaultGpuType, Quota
from taiji_site import play

SIMULATED = ["P40:8", "M40:4"]


class Command(BaseCommand):
    """Make the small world; what is there already stays as it is."""

    help = "Make a region, GPU types, two businesses with quotas, and three templates to start from."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the cards that the quotas are about."""
        parser.add_argument("cards", nargs="*", metavar="TYPE:NUMBER", help="such as P40:8")

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        """Make what is missing."""
        cards = _counted(options["cards"] or SIMULATED)
        Region.objects.get_or_create(name=REGION)
        types = {name: GpuType.objects.get_or_create(name=name)[0] for name in cards}
        for flag, title in play.BUSINESSES.items():
            business, made = Business.objects.get_or_create(flag=flag, defaults={"name": title})
            if made:
                _give(business, types, {name: play.quota(flag, number) for name, number in cards.items()})
        for name, (description, config) in play.templates(cards).items():
            Template.objects.get_or_create(name=name, defaults={"description": description, "config": config})
        self.stdout.write(f"The small world is there, with {sum(cards.values())} cards.")


def _counted(texts: list[str]) -> dict[str, int]:
    """Return how many cards there are of each type, in the order given."""
    cards: Counter[str] = Counter()
    for text in texts:
        name, _, number = text.rpartition(":")
        if not name or not number.isdigit():
            raise CommandError(f"{text!r} is not TYPE:NUMBER, such as P40:8.")
        cards[name] += int(number)
    return dict(cards)


def _give(business: Business, types: dict[str, GpuType], quotas: dict[str, int]) -> None:
    for position, (name, number) in enumerate(quotas.items()):
        DefaultGpuType.objects.create(business=business, gpu_type=types[name], position=position)
        Quota.objects.create(business=business, gpu_type=types[name], cards=number)
