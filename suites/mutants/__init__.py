"""Builds of Kafka with planted bugs, which must FAIL the gate, and unusual but legal builds, which must PASS."""
