"""Sentences about elections from outside the ISR: whether they are permitted, and whether they lost the records.

The controller logs every leader from outside the ISR as UNCLEAN, also the last known leader that leads again when ISR
and ELR are empty (KIP-966). That needs no permission, and the leader has what it had acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.model.contract.contract import UNCLEAN
from harness.model.history.elections import ElectedFrom
from harness.model.history.history import Election
from reports.incidents.broker_logs import LogLines
from reports.incidents.evidence import Evidence
from reports.incidents.partition import EpochLine, Partition, offsets_of
from reports.review.content import Incident

_UNCLEAN: Final = "unclean"
_FROM_OUTSIDE: Final = frozenset({ElectedFrom.LAST_KNOWN, ElectedFrom.UNCLEAN})


def about_elections(
    incident: Incident, evidence: Evidence, partition: Partition | None, shown: Sequence[EpochLine], logs: LogLines
) -> tuple[str, ...]:
    """Sentences about unclean elections; none where neither the history nor a line of the partition names one.

    shown: the leader epochs that the page shows.
    """
    if partition is None:
        return ()
    epochs = {line.epoch for line in shown}
    elections = [one for one in _elections(evidence, partition) if one.after.leader_epoch in epochs]
    logged = any(line.telling and _UNCLEAN in line.text.lower() for line in logs.lines)
    if not elections and not logged:
        return ()
    texts = [_contract(evidence, partition.place[0])]
    for one in elections:
        texts += [_election(one, partition), *_kept(one, incident, partition)]
    if not elections:
        texts.append(
            "The history of the cluster has no such election of this partition: the table of leader epochs says from "
            "which set each leader was elected"
        )
    return (*texts, *_promised(incident))


def _elections(evidence: Evidence, partition: Partition) -> Sequence[Election]:
    if evidence.history is None:
        return ()
    _, topic_id, number = partition.place
    return [one for one in evidence.history.elections(topic_id, number) if one.elected_from in _FROM_OUTSIDE]


def _contract(evidence: Evidence, topic: str) -> str:
    contract = None if evidence.contract is None else evidence.contract.topics.get(topic)
    if evidence.contract is None or contract is None:
        return f"Whether the contract permits an unclean election of {topic} is not known: run.json does not say it"
    if evidence.contract.changed(topic, (UNCLEAN,)):
        return (
            f"Steps of the scenario change {UNCLEAN} of {topic}: the contract permits an unclean election only while "
            "it is true"
        )
    if contract.unclean_election:
        return (
            f"The contract permits unclean elections of {topic} ({UNCLEAN}=true). Records below the log end that such "
            "an election leaves are promised all the same"
        )
    return f"The contract permits no unclean election of {topic} ({UNCLEAN}=false)"


def _election(one: Election, partition: Partition) -> str:
    after, name = one.after, f"{partition.place[0]}-{partition.place[2]}"
    leads = f"Broker {after.leader} became the leader of {name} in epoch {after.leader_epoch}"
    if one.elected_from is ElectedFrom.UNCLEAN:
        return f"{leads} from outside the ISR and the ELR: that is an unclean election"
    return (
        f"{leads}, because ISR and ELR were empty and it had led last. KIP-966 allows that without the setting; the "
        'controller logs it as an "UNCLEAN partition change"'
    )


def _kept(one: Election, incident: Incident, partition: Partition) -> Iterator[str]:
    """Whether the records were below the start of the new epoch, as the log of its leader has it."""
    offsets = offsets_of(incident, partition.place)
    replica = next((line for line in partition.replicas if line.broker == one.after.leader), None)
    starts = [] if replica is None else [start for epoch, start in replica.epochs if epoch >= one.after.leader_epoch]
    if offsets is None or not starts:
        return
    first, last = offsets
    start = min(starts)
    epoch = f"epoch {one.after.leader_epoch} begins at offset {start} in its log"
    if start > last:
        yield f"That election lost none of these records: {epoch}, above offset {last}"
    elif start <= first:
        yield f"What was at offset {start} and above before that election was replaced: {epoch}"
    else:
        yield f"Of these records, those below offset {start} were kept in that election: {epoch}"


def _promised(incident: Incident) -> Iterator[str]:
    for text in incident.promises:
        yield f"The promise: {text}" if incident.reasons else f"So these records are promised all the same: {text}"
