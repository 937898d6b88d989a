//! Round trips, damage, truncation, golden bytes.
