//! Verification of server certificates: those signed by a trusted authority, and those that are in the file of trusted
//! certificates themselves.
//!
//! `openssl req -x509` creates a certificate that claims to be an authority, and servers use it as their own. The rules
//! for signed certificates refuse it. But a client that is configured with exactly this certificate has identified the
//! server more precisely than any authority could: it is accepted, as long as its dates are valid and it is valid for
//! the host's name, if it contains names.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Trusts authorities, and individual certificates.
#[derive(Debug)]
pub(crate) struct CertificateVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl CertificateVerifier {
    /// Trusts the given certificates.
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

impl ServerCertVerifier for CertificateVerifier {
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
            // The dates were checked before.
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

/// Why a server's certificate is refused, and what to do.
pub(crate) fn refusal(wrong: &CertificateError) -> String {
    use CertificateError as Wrong;
    let advice = match wrong {
        // The second: the signer has the name of a trusted authority, and another key.
        Wrong::UnknownIssuer | Wrong::BadSignature => "name the certificate of its authority in TAPEDB_CA",
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            "use a name that the certificate has, or create a certificate with this name"
        }
        Wrong::Expired
        | Wrong::ExpiredContext { .. }
        | Wrong::NotValidYet
        | Wrong::NotValidYetContext { .. } => "renew it, and check the clock of this machine",
        Wrong::Other(other) if is_authority(other) => {
            "name this very certificate in TAPEDB_CA, or create one with `tapedb cert`"
        }
        _ => "see docs/CERTIFICATES.md",
    };
    format!("this client refuses its certificate ({wrong}); {advice}")
}

/// Whether a certificate was refused because it is an authority's. The type of this error is private to the verifier.
fn is_authority(error: &OtherError) -> bool {
    format!("{:?}", error.0) == "CaUsedAsEndEntity"
}

/// Whether a certificate was refused for its name although it contains none, as those of `openssl req -x509 -subj
/// /CN=host`.
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
