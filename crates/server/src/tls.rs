//! TLS 1.3 with the server's certificate.

use crate::config::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto::ring};
use std::path::Path;
use std::sync::Arc;
use tapedb_access::ConfigError;

impl Tls {
    /// Encryption with certificate and key, which are read.
    ///
    /// # Errors
    /// Files that cannot be read, are not PEM, or do not belong together.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, ConfigError> {
        server_config(self)
    }
}

/// Reads certificate and key.
///
/// # Errors
/// Files that cannot be read, are not PEM, or do not belong together.
pub(crate) fn server_config(tls: &Tls) -> Result<Arc<ServerConfig>, ConfigError> {
    let fail = |path: &Path, what: String| ConfigError(format!("{}: {what}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| fail(&tls.certificate, format!("cannot read the certificate: {error}")))?;
    if chain.is_empty() {
        return Err(fail(&tls.certificate, "it contains no certificate; it must be PEM".into()));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| fail(&tls.key, format!("cannot read the private key: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| fail(&tls.certificate, format!("certificate and key cannot be used: {error}")))?;
    Ok(Arc::new(config))
}
