//! Databases behind a server: what `--db` says when it is a URL.

use crate::args;
use crate::failure::Failure;
use crate::signals;
use crate::ui;
use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tapedb_client::{Address, Client, ConnectionEvent, Login, Validate};
use tapedb_engine::Database;

/// The URL that is written where a directory could be.
pub fn url_of(db: &Path) -> Option<&str> {
    db.to_str().filter(|text| Address::is_remote(text))
}

/// The directory, for what works on files alone.
pub fn directory(db: &Path) -> Result<&Path, Failure> {
    match url_of(db) {
        None => Ok(db),
        Some(url) => {
            let place =
                Address::parse(url).map_or_else(|error| error.url, |(address, _)| address.to_string());
            Err(Failure::usage(format!(
                "this works on a database's files, and {place} is behind a server; run it where the files are"
            )))
        }
    }
}

/// A directory on a command line, where a URL will not do.
pub fn local(text: &str) -> Result<PathBuf, String> {
    directory(Path::new(text)).map(Path::to_path_buf).map_err(|failure| failure.to_string())
}

/// How a server is connected to.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct ConnectArgs {
    /// Seconds that a server which cannot be reached yet is waited for [default: it is tried once].
    #[arg(long, value_name = "SECONDS", env = "TAPEDB_WAIT", value_parser = seconds)]
    wait: Option<Duration>,
    /// Compare messages of a server with their schema before they are used: auto does so for servers on other machines, and makes
    /// columns from rows there.
    #[arg(long, value_name = "WHEN", env = "TAPEDB_VALIDATE", value_parser = validate, default_value = "auto", hide_default_value = true)]
    validate: Validate,
}

/// Opens the database behind a server, which is to be there.
pub fn connect(url: &str) -> Result<Database, Failure> {
    connect_with(url, &ConnectArgs::default())
}

/// Opens the database behind a server.
pub fn connect_with(url: &str, how: &ConnectArgs) -> Result<Database, Failure> {
    open(client(url, how)?)
}

/// Opens the database behind a server; says on standard error when a connection is lost, and when it is there again.
pub fn connect_telling(url: &str, how: &ConnectArgs) -> Result<Database, Failure> {
    open(client(url, how)?.on_connection(|event| ui::tell_event(&event.to_string())))
}

/// [`connect_telling`]; notes in `is_lost` whether there is no connection now.
pub fn connect_noting(url: &str, how: &ConnectArgs, is_lost: Arc<AtomicBool>) -> Result<Database, Failure> {
    open(client(url, how)?.on_connection(move |event| {
        is_lost.store(!matches!(event, ConnectionEvent::Regained { .. }), Ordering::Release);
        eprintln!("tapedb: {event}");
    }))
}

fn open(client: Client) -> Result<Database, Failure> {
    client.connect().map_err(|error| Failure::new(error.to_string()))
}

fn client(url: &str, how: &ConnectArgs) -> Result<Client, Failure> {
    let (address, login) = Address::parse(url).map_err(|error| Failure::usage(error.to_string()))?;
    let login = match login {
        Some(Login::Password { password, .. }) if !password.is_empty() => {
            let what = "a password on the command line can be seen by others; put it into TAPEDB_PASSWORD";
            return Err(Failure::usage(what));
        }
        Some(Login::Password { user, .. }) => {
            let password = env::var("TAPEDB_PASSWORD").or_else(|_| ask(&user, &address))?;
            Login::password(user, password)
        }
        _ => env::var("TAPEDB_TOKEN").map_or(Login::Anyone, Login::token),
    };
    let mut client = Client::at(address.to_string()).login(login);
    if let Some(path) = env::var_os("TAPEDB_CA") {
        client = client.tls_roots(path);
    }
    if let Ok(text) = env::var("TAPEDB_SPIN_US") {
        client = client.spin(spin(&text)?);
    }
    Ok(client.validate(how.validate).wait(how.wait.unwrap_or_default()).give_up_when(signals::interrupted()))
}

/// When messages of a server are compared with their schema.
fn validate(text: &str) -> Result<Validate, String> {
    match text {
        "auto" => Ok(Validate::Auto),
        "always" => Ok(Validate::Always),
        "never" => Ok(Validate::Never),
        _ => Err("it is one of auto, always and never".into()),
    }
}

/// A number of seconds, with or without a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    args::duration(&format!("{text}s")).map_err(|_| format!("{text:?} is no number of seconds"))
}

/// Microseconds that whoever waits looks at the connection before it sleeps.
fn spin(text: &str) -> Result<Duration, Failure> {
    let told = |_| {
        let what = "is no number of microseconds; 50 suits a busy stream, 0 or nothing at all costs no core";
        Failure::usage(format!("TAPEDB_SPIN_US={text} {what}"))
    };
    text.parse().map(Duration::from_micros).map_err(told)
}

/// Asks whoever sits at the terminal.
fn ask(user: &str, address: &Address) -> Result<String, Failure> {
    let nobody =
        || Failure::usage(format!("the password of {user} is not known; put it into TAPEDB_PASSWORD"));
    if !io::stderr().is_terminal() {
        return Err(nobody());
    }
    rpassword::prompt_password(format!("password of {user} at {address}: ")).map_err(|_| nobody())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_on_files_says_so() {
        assert_eq!(directory(Path::new("demo.tape")).unwrap(), Path::new("demo.tape"));
        let refused = directory(Path::new("tape://ann:hunter2@h")).unwrap_err().to_string();
        assert!(refused.contains("tape://h:7847") && !refused.contains("hunter2"), "{refused}");
    }

    #[test]
    fn how_long_it_spins_is_a_number() {
        assert_eq!(spin("50").unwrap(), Duration::from_micros(50));
        let refused = spin("50us").unwrap_err().to_string();
        assert!(refused.contains("TAPEDB_SPIN_US=50us"), "{refused}");
    }

    #[test]
    fn passwords_do_not_belong_on_the_command_line() {
        let refused = connect("tape://ann:hunter2@localhost").unwrap_err().to_string();
        assert!(refused.contains("TAPEDB_PASSWORD") && !refused.contains("hunter2"), "{refused}");
    }
}
