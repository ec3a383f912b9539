//! Where a store is: what its URL, the service files, the password file and the environment say, as `psql` reads them.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::outside::{self, MAX_SETTINGS};

/// How long is waited for a server, unless the URL says otherwise: a hook has no more time.
const PATIENCE: Duration = Duration::from_secs(3);

const PORT: u16 = 5432;

/// Where a server may be, unless anything says so.
const SOCKETS: &str = "/var/run/postgresql";

/// The variables that are looked at, and what they stand for.
const VARIABLES: [(&str, &str); 13] = [
    ("PGHOST", "host"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGCHANNELBINDING", "channel_binding"),
];

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub hosts: Vec<Host>,
    pub user: String,
    pub database: String,
    pub options: Option<String>,
    pub application: String,
    pub security: Security,
    /// Only a server that can be written to will do. It is the default where there are several.
    pub must_write: bool,
    pub patience: Duration,
    /// What was passed over, and why.
    pub notes: Vec<String>,
}

/// One of the servers.
#[derive(Clone, PartialEq, Eq)]
pub struct Host {
    /// A name, an address, or the folder of a socket.
    pub name: String,
    pub port: u16,
    pub password: Option<String>,
}

/// What TLS is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    None,
    /// Where the server has it; with whom is not looked at.
    Preferred,
    /// Always; with whom is not looked at.
    Required,
    /// With a server that these authorities vouch for, whatever its name.
    Authority(Roots),
    /// With a server of that name.
    Full(Roots),
}

/// The authorities that vouch for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    File(PathBuf),
    /// Those of the system.
    System,
}

impl Address {
    /// What a URL says, or a list of `key=value`, and for the rest the service files and the environment.
    ///
    /// # Errors
    /// What cannot be understood.
    pub fn read(text: &str) -> Result<Address, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        Address::of(text, &variable, home.as_deref())
    }

    fn of(
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
        home: Option<&Path>,
    ) -> Result<Address, String> {
        let mut said = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            from_url(text)?
        } else {
            from_pairs(text)?
        };
        if let Some(service) = said.remove("service").or_else(|| variable("PGSERVICE")) {
            for (key, value) in service_of(&service, variable, home)? {
                said.entry(key).or_insert(value);
            }
        }
        for (name, key) in VARIABLES {
            if let Some(value) = variable(name) {
                said.entry(key.into()).or_insert(value);
            }
        }
        let mut take = |key: &str| said.remove(key).filter(|value| !value.is_empty());
        let user = take("user").or_else(|| variable("USER")).or_else(own_name);
        let user = user.ok_or("the store's address names no user")?;
        let database = take("dbname").unwrap_or_else(|| user.clone());
        let names = take("host").unwrap_or_else(|| SOCKETS.into());
        let names: Vec<String> = names.split(',').map(str::to_string).collect();
        let ports = ports(&take("port").unwrap_or_default(), names.len())?;
        let mut notes = Vec::new();
        let password = take("password");
        let passfile = take("passfile").map(PathBuf::from);
        let passfile = passfile.or_else(|| home.map(|home| home.join(".pgpass")));
        let known = match (&password, passfile) {
            (None, Some(file)) => passwords(&file, &mut notes),
            _ => Vec::new(),
        };
        let host = |(name, port): (String, u16)| {
            let found = || {
                let name = if name.starts_with('/') { "localhost" } else { &name };
                let port = port.to_string();
                find_password(&known, [name, &port, &database, &user])
            };
            let password = password.clone().or_else(found);
            Host { name, port, password }
        };
        let hosts: Vec<Host> = names.into_iter().zip(ports).map(host).collect();
        let roots = take("sslrootcert").map(PathBuf::from);
        let security = security(take("sslmode").as_deref(), roots, home)?;
        let must_write = match take("target_session_attrs").as_deref() {
            None => hosts.len() > 1,
            Some("any") => false,
            Some("read-write" | "primary") => true,
            Some(other) => {
                return Err(format!("a store is written to: target_session_attrs={other}"));
            }
        };
        let patience = match take("connect_timeout") {
            None => PATIENCE,
            Some(seconds) => Duration::from_secs(
                seconds
                    .parse()
                    .map_err(|_| format!("connect_timeout={seconds} is not a number"))?,
            ),
        };
        let application = take("application_name").unwrap_or_else(|| "phasegate".into());
        let options = take("options");
        // It is not offered, and refusing a server without it would be all that is left of it.
        match take("channel_binding").as_deref() {
            None | Some("prefer" | "disable") => {}
            Some(other) => return Err(format!("channel_binding={other} is not supported")),
        }
        if let Some(key) = said.keys().next() {
            return Err(format!("the store's address says {key}, which is not supported"));
        }
        let address = Address {
            hosts,
            user,
            database,
            options,
            application,
            security,
            must_write,
            patience,
            notes,
        };
        Ok(address)
    }
}

/// Without its password: people see it.
impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let host = |host: &Host| match host.port {
            PORT => host.name.clone(),
            port => format!("{}:{port}", host.name),
        };
        let hosts: Vec<String> = self.hosts.iter().map(host).collect();
        write!(out, "postgres://{}@{}/{}", self.user, hosts.join(","), self.database)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

type Said = BTreeMap<String, String>;

fn from_url(text: &str) -> Result<Said, String> {
    let mut said = Said::new();
    let mut say = |key: &str, value: &str| -> Result<(), String> {
        if !value.is_empty() {
            said.insert(key.into(), decoded(value)?);
        }
        Ok(())
    };
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    say("dbname", database)?;
    let (who, hosts) = place.rsplit_once('@').unwrap_or(("", place));
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    say("user", user)?;
    say("password", password)?;
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        // An address of IPv6 stands in brackets.
        let (name, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((name, port)) => (name, port.strip_prefix(':').unwrap_or("")),
            None => host.split_once(':').unwrap_or((host, "")),
        };
        names.push(name);
        ports.push(port);
    }
    say("host", &names.join(","))?;
    if ports.iter().any(|port| !port.is_empty()) {
        say("port", &ports.join(","))?;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) =
            pair.split_once('=').ok_or("the store's URL has a parameter without =")?;
        say(key, value)?;
    }
    Ok(said)
}

/// A text in which `%2F` stands for a slash.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|it| char::from(it).to_digit(16));
        let pair = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        bytes.push(pair.ok_or("the store's URL has a % without two digits")?);
    }
    String::from_utf8(bytes).map_err(|_| "the store's URL is not UTF-8".into())
}

/// `key=value key='a value'`, with a backslash before a quote.
fn from_pairs(text: &str) -> Result<Said, String> {
    let mut said = Said::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        // The text may have a password in it, and is not shown.
        let why = "the store's address is neither postgres://… nor a list of key=value";
        let (key, value) = rest.split_once('=').ok_or(why)?;
        let value = value.trim_start();
        let quoted = value.strip_prefix('\'');
        let mut taken = String::new();
        let mut signs = quoted.unwrap_or(value).char_indices();
        let mut end = None;
        while let Some((at, sign)) = signs.next() {
            match sign {
                '\\' => taken.extend(signs.next().map(|(_, sign)| sign)),
                '\'' if quoted.is_some() => {
                    end = Some(at + 1);
                    break;
                }
                sign if sign.is_whitespace() && quoted.is_none() => {
                    end = Some(at);
                    break;
                }
                sign => taken.push(sign),
            }
        }
        let inner = quoted.unwrap_or(value);
        if quoted.is_some() && end.is_none() {
            return Err("the store's address has a quote without an end".into());
        }
        rest = inner[end.unwrap_or(inner.len())..].trim_start();
        said.insert(key.trim().to_string(), taken);
    }
    Ok(said)
}

/// What the service files say of a service: the user's, then the system's.
fn service_of(
    service: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    home: Option<&Path>,
) -> Result<Vec<(String, String)>, String> {
    let own = variable("PGSERVICEFILE").map(PathBuf::from);
    let own = own.or_else(|| home.map(|home| home.join(".pg_service.conf")));
    let folder = variable("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".into());
    for file in own.into_iter().chain([Path::new(&folder).join("pg_service.conf")]) {
        let Ok(text) = outside::read_text(&file, MAX_SETTINGS) else { continue };
        let lines = text.lines().map(str::trim);
        let mut lines = lines.skip_while(|line| *line != format!("[{service}]"));
        if lines.next().is_none() {
            continue;
        }
        let lines = lines.take_while(|line| !line.starts_with('['));
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let (key, value) = line.split_once('=')?;
            Some((key.trim().to_string(), value.trim().to_string()))
        };
        return lines
            .map(|line| pair(line).ok_or_else(|| format!("{}: {line:?}", file.display())))
            .collect();
    }
    Err(format!("no service file has the service {service:?}"))
}

/// The lines of the password file. One that others can read is passed over, as everything else does.
fn passwords(file: &Path, notes: &mut Vec<String>) -> Vec<Vec<String>> {
    let Ok(meta) = file.metadata() else { return Vec::new() };
    if meta.permissions().mode() & 0o077 != 0 {
        let file = file.display();
        notes.push(format!("{file} was passed over, since others may read it: chmod 0600 {file}"));
        return Vec::new();
    }
    let text = outside::read_text(file, MAX_SETTINGS).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(fields).filter(|fields| fields.len() >= 5).collect()
}

/// The fields of a line, between colons, with a backslash before a colon that is part of one.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        let sign = match sign {
            // The last one, the password, has what is left.
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => signs.next(),
            sign => Some(sign),
        };
        if let Some(field) = fields.last_mut() {
            field.extend(sign);
        }
    }
    fields
}

fn find_password(known: &[Vec<String>], wanted: [&str; 4]) -> Option<String> {
    let fits = |line: &&Vec<String>| {
        line.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted)
    };
    known.iter().find(fits).map(|line| line[4].clone())
}

/// The ports of so many hosts: one for each, or one for all.
fn ports(text: &str, count: usize) -> Result<Vec<u16>, String> {
    let number = |text: &str| match text {
        "" => Ok(PORT),
        text => text.parse().map_err(|_| format!("{text:?} is not a port")),
    };
    let ports: Vec<u16> = text.split(',').map(number).collect::<Result<_, _>>()?;
    match ports.len() {
        1 => Ok(vec![ports[0]; count]),
        given if given == count => Ok(ports),
        given => Err(format!("the store's address names {count} hosts and {given} ports")),
    }
}

fn security(
    mode: Option<&str>,
    roots: Option<PathBuf>,
    home: Option<&Path>,
) -> Result<Security, String> {
    let roots = match roots {
        Some(file) if file == Path::new("system") => Some(Roots::System),
        Some(file) => Some(Roots::File(file)),
        None => None,
    };
    let usual = || {
        let file = home.map(|home| home.join(".postgresql/root.crt"));
        let file = file.filter(|file| file.is_file()).map(Roots::File);
        file.ok_or("the store's address wants to know who the server is, and names no sslrootcert")
    };
    Ok(match (mode, roots) {
        // The authorities of the system vouch for everybody, each by name.
        (None, Some(Roots::System)) => Security::Full(Roots::System),
        (None | Some("prefer" | "allow"), _) => Security::Preferred,
        (Some("disable"), _) => Security::None,
        (Some("require"), None) => Security::Required,
        (Some("require" | "verify-ca"), Some(roots)) => Security::Authority(roots),
        (Some("verify-ca"), None) => Security::Authority(usual()?),
        (Some("verify-full"), Some(roots)) => Security::Full(roots),
        (Some("verify-full"), None) => Security::Full(usual()?),
        (Some(other), _) => return Err(format!("sslmode={other} is not known")),
    })
}

/// The name of the user that this process runs as.
fn own_name() -> Option<String> {
    let id = rustix::process::getuid().as_raw().to_string();
    let users = outside::read_text(Path::new("/etc/passwd"), MAX_SETTINGS).ok()?;
    let own = users.lines().find(|line| line.split(':').nth(2) == Some(&id))?;
    own.split(':').next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use std::fs::{self, Permissions};

    use super::*;

    fn read(text: &str, home: &Path, set: &[(&str, &str)]) -> Result<Address, String> {
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_string())
        };
        Address::of(text, &variable, Some(home))
    }

    #[test]
    fn a_url_is_read_as_psql_reads_it() {
        let home = tempfile::tempdir().unwrap();
        let url =
            "postgresql://me:a%3Ab@one:5433,[::1],three/team?sslmode=require&connect_timeout=9";
        let address = read(url, home.path(), &[]).unwrap();
        let hosts: Vec<(&str, u16)> =
            address.hosts.iter().map(|host| (host.name.as_str(), host.port)).collect();
        assert_eq!(hosts, [("one", 5433), ("::1", 5432), ("three", 5432)]);
        assert_eq!(address.hosts[2].password.as_deref(), Some("a:b"));
        assert!(address.must_write, "of several, only the one that can be written to will do");
        assert_eq!(address.security, Security::Required);
        assert_eq!(address.patience, Duration::from_secs(9));
        assert_eq!(address.to_string(), "postgres://me@one:5433,::1,three/team");
        let socket = read("postgres://%2Frun%2Fpg/team?user=me", home.path(), &[]).unwrap();
        assert_eq!((&*socket.hosts[0].name, socket.must_write), ("/run/pg", false));
        let pairs = "host=one dbname = 'my db' user=o\\'hara password=''";
        let pairs = read(pairs, home.path(), &[]).unwrap();
        assert_eq!((&*pairs.database, &*pairs.user), ("my db", "o'hara"));
    }

    #[test]
    fn what_is_not_understood_is_said_without_the_password() {
        let home = tempfile::tempdir().unwrap();
        for url in [
            "postgres://me:secret@one:x/db",
            "postgres://me:secret@one/db?gssencmode=disable",
            "postgres://me:secret@one/db?target_session_attrs=standby",
            "postgres://me:secret@one/db?sslmode=maybe",
            "postgres://me:secret@one/db?sslmode=verify-full",
            "postgres://me:secret@one,two,three/db?port=1,2",
            "user=me password='secret",
            "secret",
        ] {
            let why = read(url, home.path(), &[("USER", "me")]).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn a_service_is_found_and_the_url_wins_over_it_and_it_over_the_environment() {
        let home = tempfile::tempdir().unwrap();
        let services = "# ours\n[other]\nhost=no\n[team]\nhost=one,two\nport=1\n\nuser = me\n[x]\n";
        fs::write(home.path().join(".pg_service.conf"), services).unwrap();
        let set = [("PGSERVICE", "team"), ("PGUSER", "you"), ("PGDATABASE", "db")];
        for text in ["postgres://?port=7", "service=team port=7"] {
            let address = read(text, home.path(), &set).unwrap();
            assert_eq!(address.to_string(), "postgres://me@one:7,two:7/db");
        }
        assert!(read("service=none", home.path(), &[]).unwrap_err().contains("none"));
    }

    #[test]
    fn passwords_are_found_by_host_and_not_read_where_others_can() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".pgpass");
        let text = "# x\none:5432:db:me:first\n*:*:db:me:sec\\:ond:x\nlocalhost:*:*:*:third\n";
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let address = read("postgres://me@one,two/db", home.path(), &[]).unwrap();
        let passwords: Vec<_> =
            address.hosts.iter().map(|host| host.password.as_deref().unwrap()).collect();
        assert_eq!(passwords, ["first", "sec:ond:x"]);
        let socket = read("postgres://you@%2Frun/x", home.path(), &[]).unwrap();
        assert_eq!(socket.hosts[0].password.as_deref(), Some("third"));
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let address = read("postgres://me@one/db", home.path(), &[]).unwrap();
        assert_eq!(address.hosts[0].password, None);
        assert!(address.notes[0].contains("chmod 0600"), "{:?}", address.notes);
    }
}
