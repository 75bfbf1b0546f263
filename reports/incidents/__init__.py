"""A page for each incident: what happened in its partition, its records, and the broker logs around it."""
