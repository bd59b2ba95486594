"""What this machine has and lacks, each found by trying; then every runtime proven by starting it."""
