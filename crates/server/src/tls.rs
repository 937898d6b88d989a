//! TLS 1.3 with the server's certificate, which can be replaced while the server runs.
//!
//! Always true: there is a certificate, and it belongs to its key. Files that cannot be used change nothing.

use crate::config::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, crypto::ring};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tapedb_access::ConfigError;

impl Tls {
    /// Encryption with certificate and key, which are read.
    ///
    /// # Errors
    /// Files that cannot be read, are not PEM, or do not belong together.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, ConfigError> {
        Ok(Encryption::read(self)?.config())
    }
}

/// The certificate of a server. Each handshake uses the one that was read last.
#[derive(Debug)]
pub(crate) struct Encryption {
    files: Tls,
    config: Arc<ServerConfig>,
    current: Arc<Current>,
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Encryption {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// Files that cannot be read, are not PEM, or do not belong together.
    pub fn read(files: &Tls) -> Result<Self, ConfigError> {
        let current = Arc::new(Current(RwLock::new(Arc::new(certified_key(files)?))));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ConfigError(format!("TLS cannot be used: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        Ok(Self { files: files.clone(), config: Arc::new(config), current })
    }

    /// The settings of TLS. Copies follow a reload too.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Reads the files again: handshakes from now on use what they have. Open connections stay.
    ///
    /// # Errors
    /// As [`read`](Self::read); the certificate stays the same.
    pub fn reload(&self) -> Result<(), ConfigError> {
        let read = Arc::new(certified_key(&self.files)?);
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn certified_key(tls: &Tls) -> Result<CertifiedKey, ConfigError> {
    let fail = |path: &Path, what: String| ConfigError(format!("{}: {what}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| fail(&tls.certificate, format!("cannot read the certificate: {error}")))?;
    if chain.is_empty() {
        return Err(fail(&tls.certificate, "it contains no certificate; it must be PEM".into()));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| fail(&tls.key, format!("cannot read the private key: {error}")))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|error| fail(&tls.certificate, format!("certificate and key cannot be used: {error}")))
}
