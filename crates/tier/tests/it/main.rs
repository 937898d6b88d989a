//! A store over the network: S3, as `moto` imitates it.

#![allow(missing_docs, reason = "tests")]

mod s3;
