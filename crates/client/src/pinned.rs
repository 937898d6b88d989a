//! Whose certificate is accepted: what authorities that are trusted have signed, and a certificate that is itself in the file
//! of those.
//!
//! `openssl req -x509` makes a certificate that says it is an authority, and servers are given it as theirs. Checked by the
//! rules for what authorities sign it is refused. A client that names this very certificate, byte for byte, has said which
//! server it means, more exactly than any authority could: it is accepted, as long as it is valid by its dates and for the
//! name, if it has names.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Trusts authorities, and certificates by themselves.
#[derive(Debug)]
pub(crate) struct Pinned {
    authorities: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Pinned {
    /// Trusts those who are in a file.
    ///
    /// # Errors
    /// When there is no certificate.
    pub fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self { authorities, certificates })
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let is_pinned = || self.certificates.iter().any(|certificate| certificate == end_entity);
        match verified {
            // The dates have been looked at before.
            Err(Error::InvalidCertificate(CertificateError::Other(error)))
                if is_authority(&error) && is_pinned() =>
            {
                check_name(end_entity, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            Err(Error::InvalidCertificate(error)) if is_without_names(&error) && is_pinned() => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether a certificate was refused for being an authority's. The error's type is the verifier's own.
fn is_authority(error: &OtherError) -> bool {
    format!("{:?}", error.0) == "CaUsedAsEndEntity"
}

/// Whether a certificate was refused for a name although it has none: those that `openssl req -x509 -subj /CN=host` makes.
fn is_without_names(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty())
}

fn check_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let certificate = ParsedCertificate::try_from(certificate)?;
    match rustls::client::verify_server_name(&certificate, name) {
        Err(Error::InvalidCertificate(error)) if is_without_names(&error) => Ok(()),
        checked => checked,
    }
}
