"""Values: scenario, plan, workload, results, run folder. No effects beyond reading and writing these files."""
