//! The beginning of a connection: encryption, the user, the password.

use crate::postgres::backend::Backend;
use crate::postgres::failure::Failure;
use crate::postgres::output;
use crate::postgres::registry::{Entry, Registry};
use crate::postgres::session::Session;
use crate::postgres::settings::Settings;
use crate::postgres::socket::{Socket, is_waiting};
use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tapedb_access::{ANONYMOUS, AuditEntry, AuthenticatedUser, Credentials, Refusal};
use tapedb_pg_wire::{self as input, Message, STARTUP_BYTES_MAX, Startup};
use tapedb_schema::Timestamp;

/// What tokens begin with.
const TOKEN_PREFIX: &str = "tape_";

/// Serves a connection until it ends.
pub(crate) fn serve(mut socket: Socket, backend: &Arc<Backend>, entry: &Arc<Entry>) {
    let until = Instant::now() + backend.options.handshake_time;
    let begun = start(&mut socket, backend, until);
    let (user, name, settings) = match begun {
        Ok(Some(begun)) => begun,
        Ok(None) => return,
        Err(failure) => {
            let mut out = Vec::new();
            output::failure(&mut out, &failure);
            let _ = socket.write(&out, &mut || Err(io::ErrorKind::TimedOut.into()));
            socket.close();
            return;
        }
    };
    Registry::authenticated(entry);
    let session = Session::new(socket, backend.clone(), entry.clone(), user, name, settings);
    session.run();
}

type Begun = (AuthenticatedUser, String, Settings);

/// `None`: the client has left, or wanted no session.
fn start(socket: &mut Socket, backend: &Backend, until: Instant) -> Result<Option<Begun>, Failure> {
    let (mut asked_tls, mut asked_gss) = (false, false);
    loop {
        while input::startup(socket.input()).map_err(Failure::protocol)?.is_none() {
            if !fill(socket, until)? {
                return Ok(None);
            }
        }
        let Some((startup, length)) = input::startup(socket.input()).map_err(Failure::protocol)? else {
            continue;
        };
        match startup {
            Startup::Tls if !asked_tls && !socket.is_encrypted() => {
                asked_tls = true;
                socket.consume(length);
                if !socket.input().is_empty() {
                    // It was sent before encryption was agreed upon, perhaps by another.
                    return Err(Failure::protocol("bytes behind the request for TLS"));
                }
                let answer = if backend.options.tls.is_some() { b"S" } else { b"N" };
                send(socket, answer)?;
                if let Some(tls) = &backend.options.tls {
                    socket.encrypt(tls.clone()).map_err(Failure::protocol)?;
                }
            }
            Startup::Gss if !asked_gss => {
                asked_gss = true;
                socket.consume(length);
                send(socket, b"N")?;
            }
            Startup::Tls | Startup::Gss => return Err(Failure::protocol("encryption was asked for twice")),
            Startup::Cancel { process, secret } => {
                backend.registry.cancel(process, secret);
                return Ok(None);
            }
            Startup::Start { minor, parameters } => {
                let parameters: Vec<(String, String)> =
                    parameters.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
                socket.consume(length);
                return session(socket, backend, until, minor, &parameters);
            }
        }
    }
}

fn session(
    socket: &mut Socket,
    backend: &Backend,
    until: Instant,
    minor: u16,
    parameters: &[(String, String)],
) -> Result<Option<Begun>, Failure> {
    let unknown: Vec<&str> =
        parameters.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("_pq_.")).collect();
    if minor > 0 || !unknown.is_empty() {
        let mut out = Vec::new();
        let at = output::begin(&mut out, b'v');
        out.extend(0u32.to_be_bytes());
        out.extend((unknown.len() as u32).to_be_bytes());
        unknown.iter().for_each(|name| {
            out.extend(name.bytes());
            out.push(0);
        });
        output::end(&mut out, at);
        send(socket, &out)?;
    }
    let parameter =
        |name: &str| parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let Some(name) = parameter("user").filter(|name| !name.is_empty()) else {
        return Err(Failure::fatal("28000", "the start-up packet has no user"));
    };
    if parameter("replication").is_some_and(|value| !matches!(value, "false" | "off" | "no" | "0")) {
        return Err(Failure::fatal(
            "0A000",
            "replication is not supported; use a live cursor of TapeDB's clients",
        ));
    }
    let Some(user) = login(socket, backend, until, name)? else { return Ok(None) };
    let mut settings = Settings::new();
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => options(value, &mut settings),
            name if name.starts_with("_pq_.") => {}
            // What cannot be set is as it is.
            name => drop(settings.set(name, Some(value))),
        }
    }
    Ok(Some((user, name.into(), settings)))
}

/// Settings as on a command line: `-c name=value`.
fn options(text: &str, settings: &mut Settings) {
    for word in text.split_whitespace() {
        let setting = word.strip_prefix("-c").or_else(|| word.strip_prefix("--")).unwrap_or(word);
        if let Some((name, value)) = setting.split_once('=') {
            let _ = settings.set(&name.replace('-', "_"), Some(value));
        }
    }
}

fn login(
    socket: &mut Socket,
    backend: &Backend,
    until: Instant,
    name: &str,
) -> Result<Option<AuthenticatedUser>, Failure> {
    let authenticator = &backend.options.access.authenticator;
    let address = Some(socket.address());
    if !authenticator.has_users() {
        return checked(backend, socket, name, authenticator.login(address, Credentials::None));
    }
    if name == ANONYMOUS {
        return checked(backend, socket, name, authenticator.login(address, Credentials::None));
    }
    if !socket.is_private() {
        return Err(Failure::fatal(
            "28000",
            "passwords are accepted over TLS or on this machine alone; connect with sslmode=require, to a server that has a certificate",
        ));
    }
    let mut out = Vec::new();
    output::message(&mut out, b'R', &3u32.to_be_bytes());
    send(socket, &out)?;
    let password = loop {
        if let Some((kind, body, length)) =
            input::frame(socket.input(), STARTUP_BYTES_MAX).map_err(Failure::protocol)?
        {
            let Message::Password(password) = input::message(kind, body).map_err(Failure::protocol)? else {
                return Err(Failure::protocol("a message where a password is expected"));
            };
            let password = password.to_string();
            socket.consume(length);
            break password;
        }
        if !fill(socket, until)? {
            return Ok(None);
        }
    };
    let credentials = match password.starts_with(TOKEN_PREFIX) {
        true => Credentials::Token(&password),
        false => Credentials::Password { user: name, password: &password },
    };
    let login = match password.is_empty() {
        true => Err(Refusal::Wrong),
        false => authenticator.login(address, credentials),
    };
    // A token has a user of its own.
    let login = login.and_then(|user| match user.user() {
        Some(found) if found.name == name => Ok(user),
        _ => Err(Refusal::Wrong),
    });
    checked(backend, socket, name, login)
}

fn checked(
    backend: &Backend,
    socket: &Socket,
    name: &str,
    login: Result<AuthenticatedUser, Refusal>,
) -> Result<Option<AuthenticatedUser>, Failure> {
    let audit = |event: &str| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
        let address = socket.peer().to_string();
        let entry = AuditEntry { event, user: name, address: &address, stream: "", what: "postgres" };
        backend.options.access.audit.write(Timestamp(now), entry);
    };
    match login {
        Ok(user) => {
            audit("login");
            Ok(Some(user))
        }
        Err(refusal) => {
            audit("refused");
            let text = match refusal {
                Refusal::Wrong => format!("user {name:?} or its password is wrong"),
                Refusal::Missing => {
                    "the server has no anonymous user; connect with a name and a password".into()
                }
                Refusal::TooOften => {
                    format!("too many wrong passwords of user {name:?} from this address; try again later")
                }
            };
            Err(Failure::fatal("28P01", text))
        }
    }
}

/// Reads more, within the time for authentication; `false`: the client has left.
fn fill(socket: &mut Socket, until: Instant) -> Result<bool, Failure> {
    let late = || Failure::fatal("08006", "the connection was not authenticated in time");
    let left =
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or_else(late)?;
    if socket.set_read_timeout(Some(left)).is_err() {
        return Ok(false);
    }
    match socket.fill() {
        Ok(is_open) => Ok(is_open),
        Err(error) if is_waiting(&error) => Err(late()),
        Err(_) => Ok(false),
    }
}

fn send(socket: &mut Socket, bytes: &[u8]) -> Result<(), Failure> {
    socket.write(bytes, &mut || Err(io::ErrorKind::TimedOut.into())).map_err(Failure::protocol)
}
