"""One partition of a correct Kafka, at random: appends, fetches, elections, deletion, restarts; and looks at it.

It keeps the rules of Kafka: a leader is elected from the ISR, the high watermark is what all of the ISR have and moves
only with enough of them, a new leader answers after its high watermark has reached the start of its epoch, followers
truncate to the log of the leader, and retention deletes at each replica at its own time. `unclean` breaks the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from harness.audit.look import PartitionLook
from harness.audit.store.partitions import Offsets
from harness.model.history.log import Record
from suites.unit.audit.rules.crowd import Crowd
from suites.unit.audit.rules.scene import at, feature
from suites.unit.model.history.logs import change, config, partition, topic

MIN_ISR = 2


@dataclass
class Replica:
    epochs: list[int] = field(default_factory=list)  # of each record
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.epochs)


class LegalCluster:
    """min.insync.replicas is 2 of 3. The topic is 30 days old and keeps records for an hour."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.crowd = Crowd(
            feature("metadata.version", 20),
            topic(),
            config("min.insync.replicas", str(MIN_ISR)),
            config("retention.ms", "3600000"),
            partition(),
        )
        self.crowd.wait(30 * 86_400)
        self.replicas = {number: Replica() for number in (1, 2, 3)}
        self.isr = [1, 2, 3]
        self.leader, self.epoch = 1, 0
        self.high_watermark = 0
        self.fetched = dict.fromkeys(self.replicas, 0)  # log ends that followers showed in this epoch
        self.chain = [(0, 0)]
        self.epochs_asked = 0.5

    def run(self, steps: int) -> None:
        often, seldom = (self.append, self.fetch, self.look), (self.shrink, self.grow, self.elect, self.delete)
        choices = (*often, *often, self.fetch, *seldom)
        for _ in range(steps):
            self.random.choice(choices)()

    def append(self) -> None:
        self.replicas[self.leader].epochs += [self.epoch] * self.random.randint(1, 20)

    def fetch(self) -> None:
        """A follower truncates what the leader does not have, and fetches some of the rest."""
        number = self.random.choice([number for number in self.replicas if number != self.leader])
        follower, leader = self.replicas[number], self.replicas[self.leader]
        common = 0
        while common < min(follower.end, leader.end) and follower.epochs[common] == leader.epochs[common]:
            common += 1
        upto = self.random.randint(common, leader.end)
        follower.epochs = leader.epochs[:upto]
        follower.start = max(follower.start, min(leader.start, follower.end))
        self.fetched[number] = follower.end
        self.commit()

    def commit(self) -> None:
        if len(self.isr) >= MIN_ISR:
            ends = {**self.fetched, self.leader: self.replicas[self.leader].end}
            self.high_watermark = max(self.high_watermark, min(ends[number] for number in self.isr))

    def shrink(self) -> None:
        if len(self.isr) > 1:
            gone = self.random.choice([number for number in self.isr if number != self.leader])
            self.isr.remove(gone)
            self.tell(change(Isr=tuple(self.isr)))
            self.commit()

    def grow(self) -> None:
        """A replica joins once it has everything that is committed, and everything up to the start of the epoch."""
        least = max(self.high_watermark, self.chain[-1][1])
        ready = [number for number, end in self.fetched.items() if number not in self.isr and end >= least]
        if ready:
            self.isr.append(self.random.choice(ready))
            self.tell(change(Isr=tuple(sorted(self.isr))))

    def elect(self) -> None:
        self.lead(self.random.choice(self.isr))

    def unclean(self) -> int:
        """A replica out of the ISR leads, and the others truncate. Returns where its log ended."""
        outside = [number for number in self.replicas if number not in self.isr]
        committed = self.high_watermark
        self.isr = [self.random.choice(outside)]
        self.tell(change(Leader=-1))
        self.epoch += 1
        start = self.replicas[self.isr[0]].end
        self.high_watermark = min(committed, start)
        self.chain = [(epoch, first) for epoch, first in self.chain if first < start]
        self.lead(self.isr[0], isr=tuple(self.isr))
        return start

    def lead(self, number: int, isr: tuple[int, ...] | None = None) -> None:
        self.leader = number
        self.epoch += 1
        self.fetched = dict.fromkeys(self.replicas, 0)
        start = self.replicas[number].end
        self.chain = [(epoch, first) for epoch, first in self.chain if first < start] + [(self.epoch, start)]
        self.tell(change(Leader=number, Isr=isr))

    def delete(self) -> None:
        """Retention at one replica. Followers of a leader take its log start over."""
        of = self.replicas[self.random.choice(list(self.replicas))]
        most = min(self.high_watermark, of.end)
        of.start = self.random.randint(of.start, max(of.start, most))

    def tell(self, record: Record) -> None:
        self.crowd.records(record)

    def look(self) -> None:
        self.crowd.look(self.seen())

    @property
    def answers(self) -> bool:
        """Whether the leader reports a high watermark (KIP-207)."""
        return self.high_watermark >= self.chain[-1][1]

    def seen(self) -> PartitionLook:
        """The answer of the leader. A restart or an election makes it refuse, now and then."""
        leader = self.replicas[self.leader]
        if self.random.random() < 0.1 or not self.answers:
            return at(Offsets(), error="OFFSET_NOT_AVAILABLE")
        chain = [(epoch, max(first, leader.start)) for epoch, first in self.chain]
        chain = [of for number, of in enumerate(chain) if number + 1 == len(chain) or chain[number + 1][1] > of[1]]
        return at(
            Offsets(self.epoch, leader.start, self.high_watermark, leader.end),
            log_ends={number: of.end for number, of in self.replicas.items() if self.random.random() < 0.9},
            stable=self.high_watermark,
            epochs=chain if self.random.random() < self.epochs_asked else (),
        )
