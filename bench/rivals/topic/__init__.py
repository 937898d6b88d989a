"""Messages through shared memory: how late they come, and how many what TapeDB's rivals carry."""
