//! A server that speaks Iceberg's REST protocol: Lakekeeper, Polaris, Nessie, Unity, those of clouds.

use crate::catalog::{Catalog, Creation, Loaded};
use crate::error::Error;
use crate::format::CommitFailure;
use crate::settings::{CatalogSettings, TableName};
use crate::spec::metadata::{Metadata, partitions_json};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value as Json, json};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

/// A request that is not answered after this is given up.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// A server with tables.
#[derive(Debug)]
pub struct RestCatalog {
    client: Client,
    runtime: Runtime,
    /// Up to before `/v1`.
    url: String,
    settings: CatalogSettings,
    /// What the server answered when it was asked first.
    session: Mutex<Option<Session>>,
}

#[derive(Debug, Clone)]
struct Session {
    /// Between `/v1/` and `namespaces`, with a slash at its end; empty: none.
    prefix: String,
    token: Option<String>,
}

impl RestCatalog {
    /// The server of a URL such as `http://host:8181`. It makes no request.
    ///
    /// # Errors
    /// When the URL is none.
    pub fn open(settings: &CatalogSettings) -> Result<Self, Error> {
        let url = settings.place.trim_end_matches('/').trim_end_matches("/v1").to_string();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Error::Settings(format!(
                "{url:?} is no URL of a server: write rest:https://host:8181"
            )));
        }
        let client = Client::builder().timeout(TIMEOUT).connect_timeout(Duration::from_secs(10)).build();
        let client = client.map_err(|error| Error::Settings(format!("{url}: {error}")))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime
            .map_err(|error| Error::Settings(format!("cannot start a thread for requests: {error}")))?;
        Ok(Self { client, runtime, url, settings: settings.clone(), session: Mutex::new(None) })
    }

    fn session(&self) -> Result<Session, Error> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &*session {
            return Ok(session.clone());
        }
        let token = self.token()?;
        let mut request = self.client.get(format!("{}/v1/config", self.url));
        if let Some(warehouse) = self.settings.get("warehouse") {
            request = request.query(&[("warehouse", warehouse)]);
        }
        let answer = self.ask(authorized(request, token.as_deref()))?;
        if !answer.status.is_success() {
            return Err(answer.error(&self.url));
        }
        let found = |from: &str| answer.body.pointer(&format!("/{from}/prefix")).and_then(Json::as_str);
        let prefix = found("overrides").or_else(|| found("defaults")).map(|prefix| format!("{prefix}/"));
        let new = Session { prefix: prefix.unwrap_or_default(), token };
        *session = Some(new.clone());
        Ok(new)
    }

    /// The token that is set, or one for the credential that is set.
    fn token(&self) -> Result<Option<String>, Error> {
        if let Some(token) = self.settings.get("token") {
            return Ok(Some(token.into()));
        }
        let Some(credential) = self.settings.get("credential") else { return Ok(None) };
        let (id, secret) = credential.split_once(':').unwrap_or(("", credential));
        let scope = self.settings.get("scope").unwrap_or("catalog");
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", id),
            ("client_secret", secret),
            ("scope", scope),
        ];
        let own = format!("{}/v1/oauth/tokens", self.url);
        let url = self.settings.get("oauth2-server-uri").unwrap_or(&own);
        let answer = self.ask(self.client.post(url).form(&form))?;
        let token = answer.body.get("access_token").and_then(Json::as_str);
        token.map(|token| Some(token.to_string())).ok_or_else(|| answer.error(url))
    }

    fn ask(&self, request: RequestBuilder) -> Result<Answer, Error> {
        let away =
            |error: &dyn std::fmt::Display| Error::Away(format!("the REST catalogue {}: {error}", self.url));
        let answer = async {
            let mut response = request.send().await?;
            let (status, mut text) = (response.status(), Vec::new());
            while text.len() < ANSWER_BYTES_MAX
                && let Some(more) = response.chunk().await?
            {
                text.extend_from_slice(&more);
            }
            Ok::<_, reqwest::Error>((status, text))
        };
        let (status, text) = self.runtime.block_on(answer).map_err(|error| away(&full(&error)))?;
        let body = serde_json::from_slice(&text).unwrap_or_else(|_| {
            Json::String(String::from_utf8_lossy(&text[..text.len().min(300)]).into_owned())
        });
        Ok(Answer { status, body })
    }

    /// A request about namespaces. A token that has expired is replaced once.
    fn call(&self, make: impl Fn(&Client, String) -> RequestBuilder, path: &str) -> Result<Answer, Error> {
        for is_last in [false, true] {
            let Session { prefix, token } = self.session()?;
            let request = make(&self.client, format!("{}/v1/{prefix}namespaces{path}", self.url));
            let answer = self.ask(authorized(request, token.as_deref()))?;
            if is_last
                || answer.status != StatusCode::UNAUTHORIZED
                || self.settings.get("credential").is_none()
            {
                return Ok(answer);
            }
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Err(Error::Away(format!("the REST catalogue {} does not answer", self.url)))
    }

    fn loaded(&self, answer: Answer) -> Result<Loaded, Error> {
        let location =
            answer.body.get("metadata-location").and_then(Json::as_str).unwrap_or_default().to_string();
        let metadata = answer.body.get("metadata").cloned().unwrap_or_default();
        let metadata = Metadata::of(metadata).map_err(|error| {
            Error::Table(format!("the REST catalogue {} answers no table: {error}", self.url))
        })?;
        Ok(Loaded { metadata, location })
    }

    /// What became of a request that changes something.
    fn outcome(&self, answer: Answer) -> Result<Loaded, CommitFailure> {
        match answer.status {
            status if status.is_success() => self.loaded(answer).map_err(CommitFailure::Unknown),
            StatusCode::CONFLICT => Err(CommitFailure::Conflict(answer.error(&self.url).to_string())),
            status if status.is_server_error() => Err(CommitFailure::Unknown(answer.error(&self.url))),
            _ => Err(CommitFailure::Failed(answer.error(&self.url))),
        }
    }
}

/// What the server answered.
struct Answer {
    status: StatusCode,
    body: Json,
}

impl Answer {
    fn error(&self, url: &str) -> Error {
        let message = self.body.pointer("/error/message").or(self.body.get("error")).unwrap_or(&self.body);
        let message: String = message.as_str().map_or_else(|| message.to_string(), Into::into);
        let message: String = message.chars().take(400).collect();
        let what = format!("the REST catalogue {url}: {}: {message}", self.status);
        match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Error::Settings(format!("{what}; check token or credential of the catalogue"))
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Error::Away(what)
            }
            _ => Error::Table(what),
        }
    }
}

/// An error with its causes.
fn full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A request with a body.
fn with_json(request: RequestBuilder, body: &Json) -> RequestBuilder {
    request.header("content-type", "application/json").body(body.to_string())
}

fn authorized(request: RequestBuilder, token: Option<&str>) -> RequestBuilder {
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// Parts of a namespace in a path: between them is the byte 0x1f. Names are letters, digits, `_` and `-`.
fn path_of(name: &TableName) -> String {
    name.namespace.join("%1F")
}

impl Catalog for RestCatalog {
    fn load(&self, name: &TableName) -> Result<Option<Loaded>, Error> {
        let path = format!("/{}/tables/{}", path_of(name), name.table);
        let answer = self.call(|client, url| client.get(url), &path)?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => self.loaded(answer).map(Some),
            _ => Err(answer.error(&self.url)),
        }
    }

    fn create(&self, name: &TableName, creation: &Creation) -> Result<Loaded, CommitFailure> {
        let namespace = json!({ "namespace": name.namespace, "properties": {} });
        let made = self.call(|client, url| with_json(client.post(url), &namespace), "")?;
        if !made.status.is_success() && made.status != StatusCode::CONFLICT {
            return Err(made.error(&self.url).into());
        }
        let body = json!({
            "name": name.table,
            "schema": creation.schema.to_json(),
            "partition-spec": { "spec-id": 0, "fields": partitions_json(&creation.partitions) },
            "write-order": creation.order,
            "stage-create": false,
            "properties": creation.properties,
        });
        let path = format!("/{}/tables", path_of(name));
        let answer = self.call(|client, url| with_json(client.post(url), &body), &path);
        self.outcome(answer.map_err(CommitFailure::Unknown)?)
    }

    fn commit(
        &self,
        name: &TableName,
        _base: &Loaded,
        requirements: &[Json],
        updates: &[Json],
    ) -> Result<Loaded, CommitFailure> {
        let body = json!({
            "identifier": { "namespace": name.namespace, "name": name.table },
            "requirements": requirements,
            "updates": updates,
        });
        let path = format!("/{}/tables/{}", path_of(name), name.table);
        let answer = self.call(|client, url| with_json(client.post(url), &body), &path);
        self.outcome(answer.map_err(CommitFailure::Unknown)?)
    }

    fn describe(&self) -> String {
        format!("the REST catalogue {}", self.url)
    }
}
