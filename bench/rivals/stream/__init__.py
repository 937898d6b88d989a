"""Durable live streaming on loopback: how many records what TapeDB's rivals carry, and how late they come."""
