//! Logins: user and password, a token, or the credentials of an operator's account (a JWT and the seed of an Ed25519 key).

use crc_fast::{CrcAlgorithm, checksum};
use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use rustls::SignatureScheme;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::fmt;

/// How a client logs in.
#[derive(Clone, Default)]
pub struct Login {
    /// The user.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// A token.
    pub token: Option<String>,
    /// The text of a `.creds` file, or an nkey's seed alone.
    pub credentials: Option<String>,
}

impl fmt::Debug for Login {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What of a login goes into the first message to a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Jwt { jwt: String, signature: String },
    Key { public: String, signature: String },
}

impl Login {
    /// Signs a server's nonce with the credentials, if there are any.
    pub(super) fn prove(&self, nonce: &str) -> Result<Option<Proof>, String> {
        let Some(text) = &self.credentials else { return Ok(None) };
        let jwt = block(text, "NATS USER JWT");
        let seed = block(text, "USER NKEY SEED").unwrap_or_else(|| text.trim().to_string());
        let (seed, kind) = seed_of(&seed)?;
        let mut key = PKCS8_OF_ED25519.to_vec();
        key.extend_from_slice(&seed);
        let signing = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key))
            .map_err(|error| format!("the seed is no key of Ed25519: {error}"))?;
        let signer =
            signing.choose_scheme(&[SignatureScheme::ED25519]).ok_or("the seed is no key of Ed25519")?;
        let signature = signer.sign(nonce.as_bytes()).map_err(|error| error.to_string())?;
        let signature = BASE64URL_NOPAD.encode(&signature);
        if let Some(jwt) = jwt {
            return Ok(Some(Proof::Jwt { jwt, signature }));
        }
        let public = signing.public_key().ok_or("the key states no public key")?;
        // The last 32 bytes of the SubjectPublicKeyInfo.
        let public = public.last_chunk::<32>().ok_or("the public key is too short")?;
        Ok(Some(Proof::Key { public: public_text(kind, public), signature }))
    }
}

/// What stands before the seed in a PKCS #8 file of Ed25519.
const PKCS8_OF_ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The text between `-----BEGIN name-----` and the next line of dashes.
fn block(text: &str, name: &str) -> Option<String> {
    let begin = format!("BEGIN {name}");
    let mut lines = text.lines().skip_while(|line| !line.contains(&begin)).skip(1);
    let mut found = String::new();
    for line in lines.by_ref() {
        if line.starts_with("---") {
            return Some(found);
        }
        found.push_str(line.trim());
    }
    None
}

/// The 32 bytes of a seed, and the kind of its key: `SU…` is one of a user.
fn seed_of(text: &str) -> Result<([u8; 32], u8), String> {
    let wrong = || "the credentials have no seed: a line that begins with SU".to_string();
    let bytes = BASE32_NOPAD.decode(text.trim().as_bytes()).map_err(|_| wrong())?;
    let (content, checksum) = bytes.split_last_chunk::<2>().ok_or_else(wrong)?;
    if u16::from_le_bytes(*checksum) != crc16(content) {
        return Err("the seed in the credentials is damaged: its checksum is wrong".into());
    }
    let [first, second, seed @ ..] = content else { return Err(wrong()) };
    if first & 0xf8 != 18 << 3 {
        return Err(wrong());
    }
    let seed = seed.try_into().map_err(|_| wrong())?;
    Ok((seed, (first & 7) << 5 | second >> 3))
}

fn public_text(kind: u8, key: &[u8; 32]) -> String {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
    BASE32_NOPAD.encode(&bytes)
}

/// As nkeys have it.
fn crc16(bytes: &[u8]) -> u16 {
    checksum(CrcAlgorithm::Crc16Xmodem, bytes) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed of 32 times the byte 7, as nkeys writes it.
    fn seed() -> String {
        let mut bytes = vec![18 << 3 | 20 << 3 >> 5, (20 << 3 & 31) << 3];
        bytes.extend_from_slice(&[7; 32]);
        bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
        BASE32_NOPAD.encode(&bytes)
    }

    #[test]
    fn seeds_sign() {
        let seed = seed();
        assert!(seed.starts_with("SU"), "{seed}");
        let login = Login { credentials: Some(format!("{seed}\n")), ..Login::default() };
        let Ok(Some(Proof::Key { public, signature })) = login.prove("nonce") else { panic!("no key") };
        assert!(public.starts_with('U') && public.len() == 56, "{public}");
        assert_eq!(signature.len(), 86);
        let creds = format!(
            "-----BEGIN NATS USER JWT-----\nabc.def\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        let login = Login { credentials: Some(creds), ..Login::default() };
        let jwt = "abc.def".to_string();
        assert_eq!(login.prove("nonce"), Ok(Some(Proof::Jwt { jwt, signature })));
    }

    #[test]
    fn damaged_seeds_are_errors_without_the_seed() {
        let seed = seed();
        for bad in
            [String::new(), "SUx".into(), seed.replace('A', "B"), seed.replacen('U', "A", 1), "é".into()]
        {
            let login = Login { credentials: Some(bad.clone()), ..Login::default() };
            let error = login.prove("nonce").unwrap_err();
            assert!(error.contains("seed") && (bad.is_empty() || !error.contains(&bad)), "{bad}: {error}");
        }
        assert!(
            !format!("{:?}", Login { password: Some("hunter2".into()), ..Login::default() })
                .contains("hunter2")
        );
    }
}
