"""Entry point: `python -m harness.workload.probe`, which an auditor starts."""

from harness.workload.probe.process import main

main()
