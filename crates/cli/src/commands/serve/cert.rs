//! `tapedb cert`: create a certificate for a server, and a private authority that signs it.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Name of the authority in certificates. Constant, so that its key is enough to sign more.
const AUTHORITY: &str = "TapeDB private authority";
/// Validity of the authority in days.
const AUTHORITY_DAYS: u64 = 3650;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Maximum hosts of one certificate.
const HOSTS_MAX: usize = 100;

/// Create a certificate for a server, and the private authority that signs it.
///
/// In the directory: ca.pem, which clients trust (TAPEDB_CA); ca.key, which signs and must be kept secret: with it anyone can
/// impersonate your servers; server.pem and server.key, for the server. An existing authority is used again, so that the same ca.pem
/// trusts several servers and renewed certificates. Existing files are not overwritten without --force. See docs/CERTIFICATES.md,
/// also for certificates created with openssl.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Directory for the files; created if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Names and addresses by which clients reach the server, as in tapes://HOST.
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', default_values = ["localhost", "127.0.0.1", "::1"])]
    host: Vec<String>,

    /// Validity of the server's certificate in days.
    #[arg(long, value_name = "DAYS", default_value_t = 730, value_parser = clap::value_parser!(u64).range(1..=AUTHORITY_DAYS))]
    days: u64,

    /// Replace an existing certificate and key of the server. The authority stays.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "\
Example:
  tapedb cert tls --host ticks.example.com,10.0.0.7
  tapedb server --db my.tapedb --listen 0.0.0.0:7847 --users users.toml \\
      --tls-certificate tls/server.pem --tls-key tls/server.key
  TAPEDB_CA=tls/ca.pem tapedb streams --db tapes://ann@ticks.example.com";

#[derive(Serialize)]
struct Made {
    authority: PathBuf,
    authority_is_new: bool,
    certificate: PathBuf,
    key: PathBuf,
    hosts: Vec<String>,
    /// The last day of the certificate's validity.
    until: String,
}

/// Creates the files.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if args.host.len() > HOSTS_MAX || args.host.iter().any(|host| host.is_empty()) {
        return Err(Failure::usage(format!(
            "--host takes 1 to {HOSTS_MAX} names or addresses, none of them empty"
        )));
    }
    let path = |name: &str| args.directory.join(name);
    let (certificate, key) = (path("server.pem"), path("server.key"));
    if let Some(existing) = [&certificate, &key].into_iter().find(|path| path.exists() && !args.force) {
        return Err(Failure::new(format!("{} exists; --force replaces it", existing.display())));
    }
    fs::create_dir_all(&args.directory).map_err(failed_to("create", &args.directory))?;
    let authority = Authority::open_or_create(&path("ca.pem"), &path("ca.key"))?;
    let (not_after, made) = authority.sign(&args.host, args.days)?;
    write(&certificate, made.certificate.as_bytes(), true, args.force)?;
    write(&key, made.key.as_bytes(), false, args.force)?;
    let made = Made {
        authority: path("ca.pem"),
        authority_is_new: authority.is_new,
        certificate,
        key,
        hosts: args.host,
        until: not_after,
    };
    if ui.json() { ui.print_json(&made) } else { ui.print(&made.text()) }
}

impl Made {
    fn text(&self) -> String {
        let Self { authority, certificate, key, hosts, until, .. } = self;
        let [authority, certificate, key] = [authority, certificate, key].map(|path| path.display());
        let word = if self.authority_is_new { "created" } else { "used" };
        format!(
            "{word} the authority {authority}; its key ca.key signs more certificates: keep it secret, also from the server\n\
             created {certificate} and {key} for {}, valid until {until}\n\
             server: tapedb server --tls-certificate {certificate} --tls-key {key} …\n\
             clients: TAPEDB_CA={authority} tapedb … --db tapes://{}\n",
            hosts.join(", "),
            url_host(&hosts[0])
        )
    }
}

fn url_host(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.into() }
}

/// The private authority.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
    is_new: bool,
}

/// A certificate and its key, as PEM.
struct Signed {
    certificate: String,
    key: String,
}

impl Authority {
    fn open_or_create(certificate: &Path, key: &Path) -> Result<Self, Failure> {
        let params = authority_params()?;
        match (certificate.exists(), key.exists()) {
            (true, true) => {
                let text = fs::read_to_string(key).map_err(failed_to("read", key))?;
                let key = KeyPair::from_pem(&text).map_err(|error| {
                    Failure::new(format!(
                        "{}: not a key that can sign: {error}; check its origin",
                        key.display()
                    ))
                })?;
                Ok(Self { params, key, is_new: false })
            }
            (false, false) => {
                let pair = KeyPair::generate().map_err(failed)?;
                let signed = params.self_signed(&pair).map_err(failed)?;
                write(key, pair.serialize_pem().as_bytes(), false, false)?;
                write(certificate, signed.pem().as_bytes(), true, false)?;
                Ok(Self { params, key: pair, is_new: true })
            }
            (true, false) => Err(half(certificate, key)),
            (false, true) => Err(half(key, certificate)),
        }
    }

    /// Signs the certificate of a new key; returns it with the last day of its validity.
    fn sign(&self, hosts: &[String], days: u64) -> Result<(String, Signed), Failure> {
        let named = |error| Failure::usage(format!("--host: {error}; name hosts and addresses"));
        let mut params = CertificateParams::new(hosts.to_vec()).map_err(named)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, hosts[0].clone());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let until = Day::after(DAY.as_secs() * days);
        set_days(&mut params, &until);
        let key = KeyPair::generate().map_err(failed)?;
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?.pem();
        Ok((until.to_string(), Signed { certificate, key: key.serialize_pem() }))
    }
}

fn authority_params() -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_days(&mut params, &Day::after(DAY.as_secs() * AUTHORITY_DAYS));
    Ok(params)
}

/// Valid from yesterday on, so that a clock that is slightly behind accepts it.
fn set_days(params: &mut CertificateParams, until: &Day) {
    let time = |day: &Day| date_time_ymd(day.year, day.month, day.day);
    let yesterday = Day::of(since_1970().saturating_sub(DAY));
    (params.not_before, params.not_after) = (time(&yesterday), time(until));
}

/// A day of the calendar, UTC.
struct Day {
    year: i32,
    month: u8,
    day: u8,
}

impl Day {
    fn after(seconds: u64) -> Self {
        Self::of(since_1970() + Duration::from_secs(seconds))
    }

    fn of(since_1970: Duration) -> Self {
        let text = Timestamp(since_1970.as_nanos().try_into().unwrap_or(i64::MAX)).to_string();
        let mut parts = text[..10].split('-').map(|part| part.parse().unwrap_or(1));
        let mut next = || parts.next().unwrap_or(1_i32);
        Self { year: next(), month: next() as u8, day: next() as u8 }
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Writes a file; a private one is created with access for its owner only.
fn write(path: &Path, bytes: &[u8], is_public: bool, replaces: bool) -> Result<(), Failure> {
    if replaces && path.exists() {
        fs::remove_file(path).map_err(failed_to("replace", path))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_public { 0o644 } else { 0o600 });
    #[cfg(not(unix))]
    let _ = is_public;
    let mut file = options.open(path).map_err(failed_to("create", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed_to("write", path))
}

fn failed_to<'p>(operation: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> Failure + 'p {
    move |error| Failure::new(format!("cannot {operation} {}: {error}", path.display()))
}

fn failed(error: rcgen::Error) -> Failure {
    Failure::new(format!("cannot create a certificate: {error}; please report this"))
}

fn half(there: &Path, missing: &Path) -> Failure {
    let (there, missing) = (there.display(), missing.display());
    Failure::new(format!(
        "{there} exists and {missing} does not: an authority needs both; name another directory"
    ))
}
