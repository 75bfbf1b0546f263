"""The vocabulary of the harness as plain data. This room imports no other room."""
