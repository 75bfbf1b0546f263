"""The plan of an admin: kinds of work in turn, and one to three operations on each metadata entity in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle, permutations
from random import Random
from typing import Final, NamedTuple

from harness.model.entities import ALLOWED, FIRST_PAIR, MetadataEntity, Sort, entities_of
from harness.model.outcome import Did
from harness.model.scenario.scenario import Admin

_FIRST_NUMBER: Final = 1_000_000_000  # values of settings and of topics start here, above every default
_ITERATIONS_MIN, _ITERATIONS_MAX = 4096, 16_384  # the range that Kafka accepts for SCRAM-SHA-256
_OPERATIONS_MAX: Final = 3  # on one entity, one after another
_INVALID_SHARE: Final = 0.1  # of the topic settings: Kafka must refuse them, so no node may ever show them


class Wanted(NamedTuple):
    """One operation; `after` is the value of the entity if it is done, None = it does not exist."""

    did: Did
    metadata_entity: MetadataEntity
    after: str | None


class Plan:
    """An endless sequence of operations. It assumes that every operation was done that was not refused."""

    def __init__(self, admin: Admin, brokers: int, rng: Random) -> None:
        self._rng = rng
        self._works = cycle([self._entities(work) for work in entities_of(admin).values()])
        self._is: dict[MetadataEntity, str | None] = {}
        self._pairs = [f"{one},{other}" for one, other in permutations(range(1, brokers + 1), 2)]
        self._numbers: Mapping[Sort, Iterator[str]] = {
            Sort.TOPIC: _numbers(_FIRST_NUMBER),
            Sort.TOPIC_CONFIG: _numbers(_FIRST_NUMBER),
            Sort.BROKER_CONFIG: _numbers(_FIRST_NUMBER),
            Sort.USER: map(str, cycle(range(_ITERATIONS_MIN, _ITERATIONS_MAX + 1))),
        }

    def next(self) -> Wanted:
        """The next operation, of the next kind of work."""
        metadata_entity = next(next(self._works))
        now = self._is.get(metadata_entity)
        if metadata_entity.sort is Sort.TOPIC:
            return (
                self._set(Did.CREATE_TOPIC, metadata_entity)
                if now is None
                else Wanted(Did.DELETE_TOPIC, metadata_entity, None)
            )
        if metadata_entity.sort is Sort.ACL:
            allow = Wanted(Did.CREATE_ACL, metadata_entity, ALLOWED)
            return allow if now is None else Wanted(Did.DELETE_ACL, metadata_entity, None)
        if metadata_entity.sort is Sort.REPLICAS:
            others = [pair for pair in self._pairs if pair != (now or FIRST_PAIR)]
            return Wanted(Did.REASSIGN, metadata_entity, self._rng.choice(others))
        if metadata_entity.sort is Sort.USER:
            return self._set_or_delete(Did.SET_USER, Did.DELETE_USER, metadata_entity, now)
        if metadata_entity.sort is Sort.TOPIC_CONFIG and self._rng.random() < _INVALID_SHARE:
            return Wanted(Did.SET_CONFIG, metadata_entity, f"-{next(self._numbers[metadata_entity.sort])}")
        return self._set_or_delete(Did.SET_CONFIG, Did.UNSET_CONFIG, metadata_entity, now)

    def done(self, wanted: Wanted) -> None:
        """Notes that an operation was done or may have been; the plan assumes that it was."""
        self._is[wanted.metadata_entity] = wanted.after

    def _set(self, did: Did, metadata_entity: MetadataEntity) -> Wanted:
        return Wanted(did, metadata_entity, next(self._numbers[metadata_entity.sort]))

    def _set_or_delete(self, sets: Did, deletes: Did, metadata_entity: MetadataEntity, now: str | None) -> Wanted:
        if now is None or self._rng.random() < 0.5:
            return self._set(sets, metadata_entity)
        return Wanted(deletes, metadata_entity, None)

    def _entities(self, work: list[MetadataEntity]) -> Iterator[MetadataEntity]:
        for nth, metadata_entity in enumerate(cycle(work)):
            for _ in range(1 + nth % _OPERATIONS_MAX):
                yield metadata_entity


def _numbers(first: int) -> Iterator[str]:
    return (str(first + n) for n in range(_FIRST_NUMBER))
