"""What a person reads after a run. Works from results alone."""
