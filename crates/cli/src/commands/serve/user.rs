//! `tapedb user`: the users of a server.

use crate::input;
use clap::Subcommand;
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use tapedb_access::{
    ANONYMOUS, ConfigError, May, Right, Token, User, Users, hash_password, hash_token, new_token,
};
use tapedb_terminal::{Failure, Ui, ui};

/// Manage the users of a server: the file of `tapedb server --users`.
///
/// A running server reloads the file on SIGHUP. Passwords are typed, or read from standard input; they are stored as Argon2 hashes.
/// The user named anonymous stands for clients without a login.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The users file.
    #[arg(
        long,
        value_name = "FILE",
        env = "TAPEDB_SERVER_USERS",
        default_value = "users.toml",
        global = true
    )]
    users: PathBuf,

    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  tapedb user add ann --may read,write --streams 'us.*'
  tapedb user token feed laptop
  tapedb user list";

#[derive(Subcommand, Debug)]
enum Action {
    /// Add a user with a password and rights; creates the file if it does not exist.
    Add {
        /// The name of the user.
        name: String,
        /// Rights: read, write, create, admin.
        #[arg(long, value_delimiter = ',', value_name = "A,B", value_parser = may, default_value = "read")]
        may: Vec<May>,
        /// Streams for these rights: * matches any text, ? one character.
        #[arg(long, value_name = "PATTERN", default_value = "*")]
        streams: String,
        /// Set no password: the user has tokens only, or neither.
        #[arg(long)]
        no_password: bool,
        /// Users for whom this one may log in to read, as the servers of a cluster do: * matches any text.
        #[arg(long, value_delimiter = ',', value_name = "PATTERN")]
        acts_for: Vec<String>,
    },
    /// Give a user another right.
    Grant {
        /// The user.
        name: String,
        /// Rights: read, write, create, admin.
        #[arg(long, value_delimiter = ',', value_name = "A,B", value_parser = may, required = true)]
        may: Vec<May>,
        /// Streams for these rights.
        #[arg(long, value_name = "PATTERN", default_value = "*")]
        streams: String,
    },
    /// Set a user's password.
    Passwd {
        /// The user.
        name: String,
    },
    /// Give a user a token for a program, which is printed once; or remove one.
    Token {
        /// The user.
        name: String,
        /// Name of the token.
        token: String,
        /// Remove the token.
        #[arg(long)]
        remove: bool,
    },
    /// List the users and their rights.
    List,
    /// Remove a user.
    Remove {
        /// The user.
        name: String,
    },
}

fn may(text: &str) -> Result<May, String> {
    [May::Read, May::Write, May::Create, May::Admin]
        .into_iter()
        .find(|may| may.word() == text)
        .ok_or_else(|| format!("{text:?} is not a right; give read, write, create or admin"))
}

/// A user in JSON output.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    password: bool,
    tokens: Vec<&'a str>,
    rights: &'a [Right],
}

/// Changes or lists the users.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let path = &args.users;
    let mut users = match &args.action {
        Action::Add { .. } if !path.exists() => Users::default(),
        _ => Users::read(path).map_err(failed)?,
    };
    let text = match args.action {
        Action::List => return list(&users, ui),
        Action::Add { name, may, streams, no_password, acts_for } => {
            if users.get(&name).is_some() {
                return Err(Failure::usage(format!("user {name:?} exists; see `tapedb user passwd`")));
            }
            let password =
                if no_password || name == ANONYMOUS { None } else { Some(read_password(&name, ui)?) };
            let text = format!("added user {name:?}\n");
            users.users.push(User {
                name,
                password,
                rights: vec![Right { streams, may }],
                acts_for,
                ..User::default()
            });
            text
        }
        Action::Grant { name, may, streams } => {
            known(&mut users, &name)?.rights.push(Right { streams, may });
            format!("user {name:?} has one more right\n")
        }
        Action::Passwd { name } => {
            known(&mut users, &name)?;
            let password = read_password(&name, ui)?;
            known(&mut users, &name)?.password = Some(password);
            format!("user {name:?} has a new password\n")
        }
        Action::Token { name, token, remove } => {
            let user = known(&mut users, &name)?;
            let had = user.tokens.len();
            user.tokens.retain(|known| known.name != token);
            match (remove, user.tokens.len() < had) {
                (true, false) => return Err(Failure::usage(format!("user {name:?} has no token {token:?}"))),
                (true, true) => format!("removed token {token:?} of user {name:?}\n"),
                (false, _) => {
                    let secret = new_token().map_err(Failure::new)?;
                    user.tokens.push(Token { name: token, hash: hash_token(&secret) });
                    format!("{secret}\n")
                }
            }
        }
        Action::Remove { name } => {
            known(&mut users, &name)?;
            users.users.retain(|user| user.name != name);
            format!("removed user {name:?}\n")
        }
    };
    users.write(path).map_err(failed)?;
    ui.print(&text)
}

fn failed(error: ConfigError) -> Failure {
    Failure::new(error.to_string())
}

fn known<'a>(users: &'a mut Users, name: &str) -> Result<&'a mut User, Failure> {
    users
        .get_mut(name)
        .ok_or_else(|| Failure::usage(format!("there is no user {name:?}; see `tapedb user list`")))
}

/// The hash of a password that is typed twice, or is the first line of standard input.
fn read_password(name: &str, ui: &Ui) -> Result<String, Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot read the password: {error}; type it, or pipe it in"));
    let password = if io::stdin().is_terminal() {
        let password = rpassword::prompt_password(format!("password of {name}: ")).map_err(failed)?;
        if rpassword::prompt_password("again: ").map_err(failed)? != password {
            return Err(Failure::usage("the two passwords differ; try again"));
        }
        password
    } else {
        input::line(ui)?
    };
    hash_password(&password).map_err(Failure::usage)
}

fn list(users: &Users, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        for User { name, password, tokens, rights, .. } in &users.users {
            let tokens = tokens.iter().map(|token| token.name.as_str()).collect();
            ui.print_json(&Listed { name, password: password.is_some(), tokens, rights })?;
        }
        return Ok(());
    }
    let row = |user: &User| {
        let words = |right: &Right| {
            let may: Vec<&str> = right.may.iter().map(|may| may.word()).collect();
            format!("{} {}", may.join(","), right.streams)
        };
        let rights: Vec<String> = user.rights.iter().map(words).collect();
        let tokens: Vec<&str> = user.tokens.iter().map(|token| token.name.as_str()).collect();
        let password = if user.password.is_some() { "yes" } else { "no" };
        vec![user.name.clone(), password.into(), tokens.join(", "), rights.join("; ")]
    };
    let rows: Vec<Vec<String>> = users.users.iter().map(row).collect();
    ui.print(&ui::table(&["USER", "PASSWORD", "TOKENS", "RIGHTS"], &[], &rows))
}
