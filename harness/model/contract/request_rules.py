"""What is promised when one request of a producer fails and others of its do not: rules, with reason and source."""

from __future__ import annotations

from dataclasses import replace

from harness.model.contract.broker_rules import ALL
from harness.model.contract.configuration import IN_FLIGHT_MAX, ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, kept
from harness.model.scenario.scenario import RETRIES_MAX


def idempotence(client: ClientSettings) -> list[str]:
    """With what else has to be set for it: a producer does not begin with settings that exclude each other."""
    in_the_way = (
        (ALL, client.acks != "all"),
        (f"retries={RETRIES_MAX}", client.retries == 0),
        (f"max.in.flight.requests.per.connection={IN_FLIGHT_MAX}", client.in_flight > IN_FLIGHT_MAX),
    )
    return ["enable.idempotence=true", *(setting for setting, is_so in in_the_way if is_so)]


def request_fails(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A broker that refuses one request may take the next one of the same connection, sent before the refusal came."""
    del topic
    if client.acks == "0":  # nobody tells it
        return None
    source = f"{REFERENCE}, max.in.flight.requests.per.connection"
    if client.idempotent:
        why = "the broker takes a sequence only behind the one before it, and the producer sends all of them again"
        return kept(event, why, "KIP-98", "each record once, in order")
    if client.retries == 0:
        return Promise(
            event=event,
            effects=(Effect.UNTOLD,),
            which="the records of that request: they are reported as failed, and not there",
            why="what is not sent again is reported as failed",
            source=f"{REFERENCE}, retries",
            mend=tuple(idempotence(client)),
        )
    if client.in_flight == 1:
        return kept(event, "nothing is sent before it is known what became of the last request", source)
    return Promise(
        event=event,
        effects=(Effect.REORDERED,),
        which="the records of the requests behind it that were in flight: they come before its own",
        why="it is sent again when later ones have been written",
        source=source,
        mend=(*idempotence(replace(client, in_flight=1)), "max.in.flight.requests.per.connection=1"),
    )
