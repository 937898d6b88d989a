//! Databases of a server: `--db` with a URL.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tapedb_client::{Address, Client, ConnectionEvent, Login, Options, Validate, WebAddress};
use tapedb_engine::Database;
use tapedb_terminal::{Failure, quantity, signals, ui};

/// How a server is connected to.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct ConnectArgs {
    /// Seconds to wait for a server that cannot be reached yet [default: one attempt].
    #[arg(long, value_name = "SECONDS", env = "TAPEDB_WAIT", value_parser = seconds)]
    wait: Option<Duration>,
    /// Compare messages of a server with their schema before they are used: auto does so for servers on other machines, and makes
    /// columns from rows there.
    #[arg(long, value_name = "WHEN", env = "TAPEDB_VALIDATE", value_parser = validate, default_value = "auto", hide_default_value = true)]
    validate: Validate,
}

/// Opens the database of a server, without waiting for it.
pub fn connect(url: &str) -> Result<Database, Failure> {
    connect_with(url, &ConnectArgs::default())
}

/// Opens the database of a server.
pub fn connect_with(url: &str, how: &ConnectArgs) -> Result<Database, Failure> {
    open(client(url, how)?)
}

/// Opens the database of a server; prints on standard error when the connection is lost and when it is restored.
pub fn connect_reporting(url: &str, how: &ConnectArgs) -> Result<Database, Failure> {
    open(client(url, how)?.on_connection(|event| ui::print_event(&event.to_string())))
}

/// [`connect_reporting`]; `is_lost` shows whether the connection is lost now.
pub fn connect_watching(url: &str, how: &ConnectArgs, is_lost: Arc<AtomicBool>) -> Result<Database, Failure> {
    open(client(url, how)?.on_connection(move |event| {
        is_lost.store(!matches!(event, ConnectionEvent::Regained { .. }), Ordering::Release);
        eprintln!("tapedb: {event}");
    }))
}

fn open(client: Client) -> Result<Database, Failure> {
    client.connect().map_err(|error| Failure::new(error.to_string()))
}

/// How a request is sent to a server's HTTP port. Without a login: to a page that needs none.
pub fn web_options(address: &WebAddress, with_login: bool) -> Result<Options, Failure> {
    let login = match &address.user {
        Some(user) if with_login => {
            let password = variable("TAPEDB_PASSWORD").map_or_else(|| ask(user, address), Ok)?;
            Login::password(user, password)
        }
        None if with_login => variable("TAPEDB_TOKEN").map_or(Login::Anonymous, Login::token),
        _ => Login::Anonymous,
    };
    Ok(Options { login, tls_roots: path_variable("TAPEDB_CA"), ..Options::default() })
}

fn client(url: &str, how: &ConnectArgs) -> Result<Client, Failure> {
    let (address, login) = Address::parse(url).map_err(|error| Failure::usage(error.to_string()))?;
    let login = match login {
        Some(Login::Password { password, .. }) if !password.is_empty() => {
            let what = "other users can see a password on the command line; set TAPEDB_PASSWORD instead";
            return Err(Failure::usage(what));
        }
        Some(Login::Password { user, .. }) => {
            let password = variable("TAPEDB_PASSWORD").map_or_else(|| ask(&user, &address), Ok)?;
            Login::password(user, password)
        }
        _ => variable("TAPEDB_TOKEN").map_or(Login::Anonymous, Login::token),
    };
    let mut client = Client::at(address.to_string()).login(login);
    if let Some(path) = path_variable("TAPEDB_CA") {
        client = client.tls_roots(path);
    }
    if let Some(text) = variable("TAPEDB_SPIN_US") {
        client = client.spin(spin(&text)?);
    }
    Ok(client.validate(how.validate).wait(how.wait.unwrap_or_default()).give_up_when(signals::interrupted()))
}

/// A variable of the environment; an empty one counts as not set.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A variable of the environment that names a file.
fn path_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(Into::into)
}

/// Parser of --validate.
fn validate(text: &str) -> Result<Validate, String> {
    match text {
        "auto" => Ok(Validate::Auto),
        "always" => Ok(Validate::Always),
        "never" => Ok(Validate::Never),
        _ => Err("give auto, always or never".into()),
    }
}

/// A number of seconds, with or without a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    quantity::duration(&format!("{text}s")).map_err(|_| format!("{text:?} is not a number of seconds"))
}

/// Microseconds for which a waiting thread polls the connection before it sleeps.
fn spin(text: &str) -> Result<Duration, Failure> {
    let refused = |_| {
        let what = "is not a number of microseconds; 50 suits a busy stream, 0 or no value uses no core";
        Failure::usage(format!("TAPEDB_SPIN_US={text} {what}"))
    };
    text.parse().map(Duration::from_micros).map_err(refused)
}

/// Asks for the password at the terminal.
fn ask(user: &str, address: &impl Display) -> Result<String, Failure> {
    let no_password = || Failure::usage(format!("the password of {user} is missing; set TAPEDB_PASSWORD"));
    if !io::stderr().is_terminal() {
        return Err(no_password());
    }
    rpassword::prompt_password(format!("password of {user} at {address}: ")).map_err(|_| no_password())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_takes_a_number() {
        assert_eq!(spin("50").unwrap(), Duration::from_micros(50));
        let refused = spin("50us").unwrap_err().to_string();
        assert!(refused.contains("TAPEDB_SPIN_US=50us"), "{refused}");
    }

    #[test]
    fn passwords_on_the_command_line_are_refused() {
        let refused = connect("tape://ann:hunter2@localhost").unwrap_err().to_string();
        assert!(refused.contains("TAPEDB_PASSWORD") && !refused.contains("hunter2"), "{refused}");
    }
}
