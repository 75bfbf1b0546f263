"""Tests of reports in a real browser."""
