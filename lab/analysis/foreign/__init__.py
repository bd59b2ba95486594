"""Captures that the lab did not make: who is who, which messages there were, who was due them."""
