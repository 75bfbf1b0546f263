"""Two gates side by side: findings, coverage, and times with their spread."""
