"""The agent of a host; it needs no Django."""

VERSION = "0.1.0"
