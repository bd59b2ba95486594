"""A run that is held open: a keeper process has it, and terminals come and go."""
