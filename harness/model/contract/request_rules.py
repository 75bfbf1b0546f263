"""Promises when one request of a producer fails and its other requests do not: rules with reason and source."""

from __future__ import annotations

from dataclasses import replace

from harness.model.contract.broker_rules import ALL
from harness.model.contract.configuration import IN_FLIGHT_MAX, ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, kept
from harness.model.scenario.scenario import RETRIES_MAX


def idempotence(client: ClientSettings) -> list[str]:
    """The settings that make a producer idempotent, with those that exclude it today: it would refuse to start."""
    excluding = (
        (ALL, client.acks != "all"),
        (f"retries={RETRIES_MAX}", client.retries == 0),
        (f"max.in.flight.requests.per.connection={IN_FLIGHT_MAX}", client.in_flight > IN_FLIGHT_MAX),
    )
    return ["enable.idempotence=true", *(setting for setting, is_so in excluding if is_so)]


def request_fails(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A broker may refuse one request and append the next one, which was sent before the refusal arrived."""
    del topic
    if client.acks == "0":  # it gets no answers
        return None
    source = f"{REFERENCE}, max.in.flight.requests.per.connection"
    if client.idempotent:
        why = "a broker appends a sequence only after the one before it, and the producer retries all of them in order"
        return kept(event, why, "KIP-98", "each record once, in order")
    if client.retries == 0:
        return Promise(
            event=event,
            effects=(Effect.UNKNOWN,),
            which="the records of that request: they are reported as failed, and they are not in the log",
            why="with retries=0 a failed request is reported as failed and not retried",
            source=f"{REFERENCE}, retries",
            fix=tuple(idempotence(client)),
        )
    if client.in_flight == 1:
        return kept(event, "the producer sends a request only after the answer to the one before it", source)
    return Promise(
        event=event,
        effects=(Effect.REORDERED,),
        which="the records of later requests in flight: they are in the log before those of the failed request",
        why="the failed request is retried after later ones were appended",
        source=source,
        fix=(*idempotence(replace(client, in_flight=1)), "max.in.flight.requests.per.connection=1"),
    )
