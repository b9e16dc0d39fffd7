"""Talk to a Taiji platform from anywhere; no Django."""

VERSION = "1.0"
