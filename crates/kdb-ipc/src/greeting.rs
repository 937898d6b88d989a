//! The first bytes on a connection.

use crate::error::KdbError;

/// The capability that is spoken here: compression, timestamps, guids; messages up to 2 GB.
pub const CAPABILITY: u8 = 3;

/// A greeting ends after so many bytes.
pub const GREETING_BYTES_MAX: usize = 1024;

/// What a client sends first.
#[derive(Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Its user name.
    pub user: String,
    /// What proves it.
    pub password: String,
    /// Its capability; 0: none was sent.
    pub capability: u8,
}

/// The bytes of a greeting.
///
/// # Errors
/// [`KdbError::Shape`] for a user or password that cannot be sent: with a zero byte, a user with a colon, or too long.
pub fn greeting(user: &str, password: &str) -> Result<Vec<u8>, KdbError> {
    if user.contains(':') || user.contains('\0') || password.contains('\0') {
        return Err(KdbError::Shape("a user has a colon, or a user or password a zero byte"));
    }
    let bytes = format!("{user}:{password}").into_bytes();
    if bytes.len() + 2 > GREETING_BYTES_MAX {
        return Err(KdbError::Shape("user and password are too long for a greeting"));
    }
    Ok([&bytes[..], &[CAPABILITY, 0]].concat())
}

impl Greeting {
    /// The greeting that `bytes` begin with, and its length; `None`: it is not whole yet.
    ///
    /// # Errors
    /// [`KdbError::NotKdb`] for other protocols, [`KdbError::TooMuch`] for what does not end, [`KdbError::Invalid`].
    pub(crate) fn take(bytes: &[u8]) -> Result<Option<(Self, usize)>, KdbError> {
        if let Some(looks_like) = other_protocol(bytes) {
            return Err(KdbError::NotKdb { looks_like });
        }
        match bytes.iter().take(GREETING_BYTES_MAX).position(|byte| *byte == 0) {
            Some(end) => Ok(Some((Self::parse(&bytes[..end])?, end + 1))),
            None if bytes.len() < GREETING_BYTES_MAX => Ok(None),
            None => {
                let (what, count_max) = ("bytes of a greeting", GREETING_BYTES_MAX as u64);
                Err(KdbError::TooMuch { what, count: bytes.len() as u64, count_max })
            }
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, KdbError> {
        // Clients from before there were capabilities end with their password.
        let (text, capability) = match bytes {
            [text @ .., capability @ 1..=9] => (text, *capability),
            text => (text, 0),
        };
        let what = "user and password are not UTF-8";
        let text = str::from_utf8(text).map_err(|e| KdbError::Invalid { offset: e.valid_up_to(), what })?;
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { user: user.into(), password: password.into(), capability })
    }
}

impl std::fmt::Debug for Greeting {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Greeting").field("user", &self.user).field("capability", &self.capability).finish()
    }
}

fn other_protocol(bytes: &[u8]) -> Option<&'static str> {
    let verbs: [&[u8]; 6] = [b"GET /", b"POST /", b"HEAD /", b"PUT /", b"OPTIONS ", b"PRI * "];
    match bytes {
        [0x16, 3, ..] => Some("TLS; connect without it"),
        _ if verbs.iter().any(|verb| bytes.starts_with(verb)) => Some("HTTP"),
        _ if bytes.starts_with(b"TAPEDB1\n") => Some("TapeDB's own protocol, which has another port"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> (String, String, u8) {
        let (greeting, len) = Greeting::take(bytes).unwrap().expect("a whole greeting");
        assert_eq!(len, bytes.len());
        (greeting.user, greeting.password, greeting.capability)
    }

    #[test]
    fn greetings_of_all_times_are_understood() {
        assert_eq!(parsed(b"me:secret\x03\0"), ("me".into(), "secret".into(), 3));
        assert_eq!(parsed(b"me:a:b\x06\0"), ("me".into(), "a:b".into(), 6));
        assert_eq!(parsed(b"me\0"), ("me".into(), String::new(), 0));
        assert_eq!(parsed(b"\x03\0"), (String::new(), String::new(), 3));
        assert_eq!(parsed(&greeting("u", "p").unwrap()), ("u".into(), "p".into(), CAPABILITY));
        assert!(greeting("a:b", "").is_err());
        assert!(greeting("a", &"x".repeat(GREETING_BYTES_MAX)).is_err());
    }

    #[test]
    fn other_protocols_are_distinguished() {
        for (bytes, like) in
            [(&b"GET / HTTP/1.1"[..], "HTTP"), (&[0x16, 3, 1], "TLS"), (b"TAPEDB1\n", "TapeDB")]
        {
            let error = Greeting::take(bytes).unwrap_err().to_string();
            assert!(error.contains(like), "{error}");
        }
    }

    #[test]
    fn a_greeting_ends() {
        assert_eq!(Greeting::take(&[b'a'; GREETING_BYTES_MAX - 1]), Ok(None));
        assert!(matches!(Greeting::take(&[b'a'; GREETING_BYTES_MAX]), Err(KdbError::TooMuch { .. })));
        assert!(matches!(Greeting::take(b"\xff\xfe\x03\0"), Err(KdbError::Invalid { .. })));
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = format!("{:?}", Greeting::take(b"me:secret\x03\0"));
        assert!(shown.contains("me") && !shown.contains("secret"), "{shown}");
    }
}
