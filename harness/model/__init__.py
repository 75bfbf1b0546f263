"""Words of the field as plain data. Nothing in here imports another room of the harness."""
