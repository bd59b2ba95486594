"""Where a plan is brought up: containers or network namespaces. Knows plans, not scenarios or verdicts."""
