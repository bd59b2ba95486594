"""The command `lab`: arguments, what a person sees, exit codes. No work of its own."""
