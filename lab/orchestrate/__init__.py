"""One run from plan to run folder: stages in order, waits with an end, `down` always."""
