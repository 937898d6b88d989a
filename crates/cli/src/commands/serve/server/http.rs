//! Requests to a server's pages and its REST interface.

use crate::remote;
use tapedb_client::{WebAddress, WebAnswer};
use tapedb_terminal::Failure;

/// The address of a URL of HTTP; `None`: it is another one.
pub(super) fn address(url: &str) -> Result<Option<WebAddress>, Failure> {
    WebAddress::parse(url, tapedb_server::HTTP_PORT)
        .transpose()
        .map_err(|error| Failure::usage(format!("{error}; write http://HOST:PORT or https://HOST:PORT")))
}

/// Sends a request, with the login and the trusted authorities of the environment.
pub(super) fn ask(
    address: &WebAddress,
    method: &str,
    path: &str,
    with_login: bool,
) -> Result<WebAnswer, Failure> {
    let options = remote::web_options(address, with_login)?;
    address.ask(method, path, &options).map_err(|error| {
        Failure::new(format!(
            "{address} cannot be reached: {error}; check the address, and that the server runs"
        ))
    })
}
