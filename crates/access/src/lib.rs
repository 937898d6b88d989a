//! Access to a server: users and their rights, logins and their throttle, quotas, the audit log. Every protocol that a server has
//! uses the same [`Logins`], [`Quotas`] and [`AuditLog`], so that a limit counts over all of them.
//!
//! ```
//! use tapedb_access::{Authenticator, May, Right, User, Users, hash_password};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("users.toml");
//! let rights = vec![Right { streams: "us.*".into(), may: vec![May::Read] }];
//! let ann = User { name: "ann".into(), password: Some(hash_password("secret")?), rights, ..User::default() };
//! Users { users: vec![ann] }.write(&path)?;
//! let ann = Authenticator::open(Some(path))?.authenticate(None, "ann", "secret").expect("the password is right");
//! assert!(ann.may(May::Read, "us.trades") && !ann.may(May::Write, "us.trades"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audit;
mod authentication;
mod basic;
mod error;
mod limits;
mod login;
mod pattern;
mod quota;
mod redact;
mod secret;
mod throttle;
mod users;

pub use audit::{AuditEntry, AuditLog};
pub use authentication::{Access, AuthenticatedUser, Authenticator};
pub use basic::basic_credentials;
pub use error::{ConfigError, EditError};
pub use limits::{AccessLimits, QueryLimits};
pub use login::{Credentials, Identity, Logins, Refusal, name_for};
pub use quota::{Permit, Quotas, RateLimit, UserQuota};
pub use redact::redacted;
pub use secret::{digest, hash_password, hash_token, is_same, new_token, random};
pub use throttle::network;
pub use users::{ANONYMOUS, May, Right, Token, User, UserLimits, Users};
