"""Talk to a Taiji platform from anywhere; no Django."""
