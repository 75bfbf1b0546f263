"""Builds of Kafka with planted bugs, and builds that are unusual but legal: what the gate says of them."""
