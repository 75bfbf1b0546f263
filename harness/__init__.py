"""Decides whether an Apache Kafka release may ship: real brokers, real faults, every acknowledged record followed."""
