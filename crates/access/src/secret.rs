//! Passwords and tokens: how they are hashed and verified.
//!
//! A password is stored as an Argon2id hash, which takes about 20 ms and 19 MiB to verify: passwords can be guessed. A
//! token has 256 random bits and cannot be guessed, so a plain hash is enough, and cheap to verify.

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use rustls::crypto::ring;
use std::fmt::Write;
use subtle::ConstantTimeEq;

/// The prefix of tokens: users, and programs that search for leaked secrets, recognize it.
pub(crate) const TOKEN_PREFIX: &str = "tape_";
const TOKEN_BYTES: usize = 32;
const TOKEN_HASH_PREFIX: &str = "blake2b:";
/// Longer passwords are refused: hashing them would take long.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1024;
const SALT_BYTES: usize = 16;

/// The hash of a password: a text that begins with `$argon2id$`.
///
/// # Errors
/// A password that is empty or longer than 1,024 bytes; a system without a random number generator.
pub fn hash_password(password: &str) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes; choose another"));
    }
    let hash: Result<PasswordHash, _> =
        Argon2::default().hash_password_with_salt(password.as_bytes(), &random::<SALT_BYTES>()?);
    hash.map(|hash| hash.to_string()).map_err(|error| format!("cannot hash the password: {error}"))
}

/// Whether a text has the format of [`hash_password`].
pub(crate) fn is_password_hash(hash: &str) -> bool {
    hash.starts_with("$argon2") && PasswordHash::new(hash).is_ok()
}

/// Whether `hash` is the hash of `password`. Slow on purpose.
pub(crate) fn is_password(password: &str, hash: &str) -> bool {
    password.len() <= PASSWORD_BYTES_MAX
        && Argon2::default().verify_password(password.as_bytes(), hash).is_ok()
}

/// A new token.
///
/// # Errors
/// A system without a random number generator.
pub fn new_token() -> Result<String, String> {
    Ok(format!("{TOKEN_PREFIX}{}", hex(&random::<TOKEN_BYTES>()?)))
}

/// The hash of a token: a text that begins with `blake2b:`.
pub fn hash_token(token: &str) -> String {
    format!("{TOKEN_HASH_PREFIX}{}", hex(&digest(&[token.as_bytes()])))
}

/// Whether a text has the format of [`hash_token`].
pub(crate) fn is_token_hash(hash: &str) -> bool {
    let digits = hash.strip_prefix(TOKEN_HASH_PREFIX);
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Whether two secrets are equal, in constant time.
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// A hash of several texts that includes their lengths.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Blake2b::<U32>::new();
    if let [one] = parts {
        hasher.update(one);
    } else {
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().into()
}

/// Cryptographically random bytes.
///
/// # Errors
/// A system without a random number generator.
pub fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let filled = ring::default_provider().secure_random.fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| "the system gives no random numbers; try again".to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_by_its_hash() {
        let hash = hash_password("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(is_password_hash(&hash) && !is_password_hash("correct horse"));
        assert!(is_password("correct horse", &hash));
        assert!(!is_password("correct hors", &hash) && !is_password("", &hash));
        assert_ne!(hash_password("correct horse").unwrap(), hash, "salted");
        assert!(hash_password("").is_err() && hash_password(&"x".repeat(1025)).is_err());
    }

    #[test]
    fn tokens_are_long_and_random() {
        let (token, other) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(token, other);
        assert_eq!(token.len(), TOKEN_PREFIX.len() + 64);
        assert!(is_token_hash(&hash_token(&token)) && !is_token_hash(&token));
        assert_ne!(hash_token(&token), hash_token(&other));
    }

    #[test]
    fn digests_depend_on_lengths() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    }
}
