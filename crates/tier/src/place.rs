//! URLs of stores, and what the environment states for them.

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::env;
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::{ObjectError, ObjectFault};

/// Schemes of the URLs.
pub(crate) const SCHEMES: [&str; 3] = ["s3", "gs", "az"];

/// A connection that is not there after this is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A request that is not answered after this is repeated, or given up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A request is repeated so often after failures that may pass: refused and broken connections, 429, 500 and others above it.
const RETRIES: usize = 4;
/// It is not repeated any more after this.
const RETRY_TIMEOUT: Duration = Duration::from_secs(40);

/// A store, and the prefix in it.
pub(crate) struct Place {
    pub store: Arc<dyn ObjectStore>,
    /// Without slashes at its ends; empty: none.
    pub prefix: String,
    /// What a user may have to set where credentials are refused.
    pub credentials: &'static str,
}

impl Place {
    pub fn open(url: &str) -> Result<Self, ObjectError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let wrong =
            |error: object_store::Error| ObjectError::new(ObjectFault::Wrong, format!("{url}: {error}"));
        if bucket.is_empty() {
            return Err(ObjectError::new(
                ObjectFault::Wrong,
                format!("{url}: write a bucket: {scheme}://bucket/prefix"),
            ));
        }
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(5),
                base: 2.0,
            },
            max_retries: RETRIES,
            retry_timeout: RETRY_TIMEOUT,
        };
        let (store, credentials): (Arc<dyn ObjectStore>, _) = match scheme {
            "s3" => {
                let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
                    .iter()
                    .find_map(|key| env::var(key).ok());
                let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
                builder = builder.with_client_options(client(endpoint.as_deref()));
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                let store = builder.build().map_err(wrong)?;
                (Arc::new(store), "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL")
            }
            "gs" => {
                let builder =
                    GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry);
                let store = builder.with_client_options(client(None)).build().map_err(wrong)?;
                (Arc::new(store), "GOOGLE_APPLICATION_CREDENTIALS")
            }
            "az" => {
                let endpoint = env::var("AZURE_STORAGE_ENDPOINT").ok();
                let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket).with_retry(retry);
                let store =
                    builder.with_client_options(client(endpoint.as_deref())).build().map_err(wrong)?;
                (Arc::new(store), "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY")
            }
            _ => {
                return Err(ObjectError::new(
                    ObjectFault::Wrong,
                    format!("{url}: the scheme must be s3, gs or az"),
                ));
            }
        };
        Ok(Self { store, prefix: prefix.trim_matches('/').into(), credentials })
    }
}

/// Plain HTTP only where the endpoint's URL states it: a store beside, as in tests.
fn client(endpoint: Option<&str>) -> ClientOptions {
    let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    ClientOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_timeout(REQUEST_TIMEOUT)
        .with_allow_http(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_bucket_and_perhaps_a_prefix() {
        for (url, prefix) in [("s3://bucket", ""), ("s3://bucket/a/b", "a/b"), ("s3://bucket/a/", "a")] {
            assert_eq!(Place::open(url).unwrap().prefix, prefix, "{url}");
        }
        for url in ["s3://", "s3:///a", "ftp://bucket/a", "bucket"] {
            assert!(Place::open(url).is_err(), "{url}");
        }
    }
}
