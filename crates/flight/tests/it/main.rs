//! Flight SQL over loopback, with clients of others and bytes of none.

mod calls;
mod clients;
mod fixture;
mod hostile;
mod ingest;
mod lives;
