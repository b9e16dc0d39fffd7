"""Hosts as the pass sees them change, and pools of them in buckets by free cards."""

from bisect import bisect_left, insort

from jobs.scheduling.types import HostCards, Running


class Host:
    """The cards of one type on one host, as the pass sees them change."""

    __slots__ = (
        "coming",
        "gpu_type",
        "held",
        "id",
        "limited",
        "numbers",
        "offers",
        "pool",
        "region",
        "room",
        "soft",
        "soon",
        "state",
        "total",
        "turnover",
        "version",
        "victims",
    )

    def __init__(self, row: HostCards) -> None:
        self.id = row.host
        self.gpu_type = row.gpu_type
        self.region = row.region
        self.state = row.state
        self.offers = row.offers
        self.total = row.total
        self.numbers = list(row.free_numbers)  # of the free cards, ascending
        self.held = 0  # cards that claims hold here, free already or still to come
        self.coming = 0  # cards of tasks that are leaving
        self.soft = 0  # cards of `victims`
        self.limited: list[Running] = []  # running tasks that have a time limit
        self.victims: list[Running] = []  # who may be evicted: elastic tasks and kept places, none leaving
        self.turnover = 0  # grows with every change of them
        self.pool: Pool | None = None  # None: not offered
        self.version = 0  # grows with every change, so that a ranking knows what it judged
        self.room = len(self.numbers)  # cards that are free for anyone now …
        self.soon = self.room  # … and once all that leave are gone

    def update(self) -> None:
        """Bring what follows from the other counts up to date, after any change of them."""
        free = len(self.numbers) - self.held
        old_room, self.room = self.room, free if free > 0 else 0
        self.soon = free + self.coming
        if self.pool is not None:
            self.pool.moved(self, old_room)


class Pool:
    """The offered hosts of one type in one region, in buckets by their room."""

    __slots__ = ("buckets", "changed", "expecting", "filled", "gpu_type", "hosts", "region")

    def __init__(self, gpu_type: int, region: int) -> None:
        self.gpu_type = gpu_type
        self.region = region
        self.hosts: dict[int, Host] = {}
        self.buckets: list[list[int]] = [[]]  # room → ids of the hosts that have it, ascending
        self.filled = 0  # bit n: some host has room n
        self.expecting: set[int] = set()  # hosts with more free for anyone soon than now
        self.changed: list[Host] = []  # hosts whose cards changed hands, for the rankings of victims

    def add(self, host: Host) -> None:
        """Offer the host."""
        self.hosts[host.id] = host
        host.pool = self
        while len(self.buckets) <= host.total:
            self.buckets.append([])
        insort(self.buckets[host.room], host.id)
        self.filled |= 1 << host.room
        self.moved(host, host.room)

    def discard(self, host: Host) -> None:
        """Stop offering the host."""
        del self.hosts[host.id]
        host.pool = None
        self._leave(host, host.room)
        self.expecting.discard(host.id)
        host.version += 1
        self.changed.append(host)

    def free(self) -> int:
        """Return the cards that are free for anyone now."""
        return sum(room * len(bucket) for room, bucket in enumerate(self.buckets))

    def moved(self, host: Host, old_room: int) -> None:
        """Put the host into the bucket of its room, and note that cards of it changed hands."""
        room = host.room
        if room != old_room:
            self._leave(host, old_room)
            insort(self.buckets[room], host.id)
            self.filled |= 1 << room
        if host.soon > room:
            self.expecting.add(host.id)
        elif self.expecting:
            self.expecting.discard(host.id)
        host.version += 1
        self.changed.append(host)

    def _leave(self, host: Host, room: int) -> None:
        bucket = self.buckets[room]
        del bucket[bisect_left(bucket, host.id)]
        if not bucket:
            self.filled &= ~(1 << room)
