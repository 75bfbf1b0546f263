"""Checks: pure functions from tables to the records that break a promise. Excuses decide what the contract permits.

Each module or package here with a `CHECK` is a check, and is found by `harness.verify.registry`.
"""
