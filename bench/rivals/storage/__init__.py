"""History on disk: what TapeDB's rivals need for the same rows, and how fast they write and read them."""
