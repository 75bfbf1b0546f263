"""Settings of property tests: no deadline, because a test on a busy machine may take any time."""

from hypothesis import settings

# The profile of today stays the parent: on CI it is Hypothesis' own, which repeats the same examples in every run.
settings.register_profile("without_deadline", parent=settings(), deadline=None)
settings.load_profile("without_deadline")
