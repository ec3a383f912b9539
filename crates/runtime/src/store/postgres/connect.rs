//! The way to the server: connecting, and asking again where a connection was lost.
//!
//! Whatever is asked can be asked twice: questions change nothing, a transition carries an operation id by which the
//! server knows that it has happened, and the rest comes to the same. So an answer that was lost on the way is found
//! again, and nothing happens twice.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::error::Error as _;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postgres::config::{SslMode, TargetSessionAttrs};
use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use postgres::{Client, Config, Error, NoTls, Row, Statement};

use super::address::{Address, Host, Security};
use super::tls::Tls;
use crate::store::StoreError;

/// For how long a server that did not answer is not asked again by the same process: one hook looks at several things.
const DOWN: Duration = Duration::from_secs(2);

/// For how long the result of a transition is asked for whose answer was lost. Where the first server is gone, another
/// takes its place within about 20 seconds.
pub const UNTIL_KNOWN: Duration = Duration::from_secs(30);

/// Connections that wait for the next one who needs one, at most.
const MAX_IDLE: usize = 4;

/// What the server is told at the beginning: nobody holds others up for longer.
const SETTINGS: &str = "-c statement_timeout=20s -c lock_timeout=10s \
     -c idle_in_transaction_session_timeout=20s -c default_transaction_isolation=read\\ committed \
     -c client_min_messages=warning";

/// Connections of this process that nobody uses, by their address.
static IDLE: Mutex<Vec<(String, Connection)>> = Mutex::new(Vec::new());

/// Which server did not answer, when, and what was said.
static SILENT: Mutex<Option<(String, Instant, String)>> = Mutex::new(None);

/// The way to a server.
pub struct Link {
    /// Where it is, or why it is not asked.
    address: Result<Address, String>,
    connection: RefCell<Option<Connection>>,
}

/// A connection, and what the server has understood already.
pub struct Connection {
    pub client: Client,
    prepared: Prepared,
}

/// A statement that is asked for again and again by those who live long, and once by a hook: to prepare it costs a round
/// trip, which only the former get back.
enum Prepared {
    Never,
    Asked,
    Is(Statement),
}

impl Connection {
    /// Carries out the one statement that is worth it, with parameters of these types.
    pub fn often(
        &mut self,
        query: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        if let Prepared::Never = self.prepared {
            self.prepared = Prepared::Asked;
            return self.client.query_typed(query, parameters);
        }
        if let Prepared::Asked = self.prepared {
            let types: Vec<Type> = parameters.iter().map(|(_, of)| of.clone()).collect();
            self.prepared = Prepared::Is(self.client.prepare_typed(query, &types)?);
        }
        let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
        match &self.prepared {
            Prepared::Is(statement) => self.client.query(statement, &values),
            _ => self.client.query_typed(query, parameters),
        }
    }
}

impl Link {
    /// The way to a store, or why there is none.
    pub fn new(address: Result<Address, String>) -> Link {
        Link { address, connection: RefCell::default() }
    }

    /// Where the server is, as people are told.
    pub fn name(&self) -> String {
        self.address.as_ref().map_or_else(|_| "PostgreSQL".into(), ToString::to_string)
    }

    /// What was passed over on the way, and why.
    pub fn notes(&self) -> &[String] {
        self.address.as_ref().map_or(&[], |address| &address.notes)
    }

    /// Another way to the same server.
    pub fn another(&self) -> Link {
        Link::new(self.address.clone())
    }

    /// Asks something of the server: once more where the connection was lost, and then, for as long as `patience` says,
    /// again and again.
    pub fn ask<T>(
        &self,
        patience: Duration,
        mut question: impl FnMut(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let address = self.address.as_ref().map_err(|why| StoreError::Failed(why.clone()))?;
        let since = Instant::now();
        let (mut lost, mut pause) = (None, Duration::from_millis(20));
        loop {
            let connected = match self.connection.take() {
                Some(connection) => Ok(connection),
                None => connection(address, lost.is_some()),
            };
            match connected {
                Err(why) => {
                    if lost.is_none() || since.elapsed() >= patience {
                        return Err(unreachable(address, &why));
                    }
                }
                Ok(mut connection) => match question(&mut connection) {
                    Ok(answer) => {
                        *self.connection.borrow_mut() = Some(connection);
                        return Ok(answer);
                    }
                    Err(error) if is_lost(&connection.client, &error) => {
                        let is_first = lost.is_none();
                        lost = Some(told(&error));
                        if is_first {
                            continue;
                        }
                    }
                    Err(error) => {
                        *self.connection.borrow_mut() = Some(connection);
                        return Err(refused(address, &error));
                    }
                },
            }
            if since.elapsed() >= patience {
                return Err(unreachable(address, &lost.unwrap_or_default()));
            }
            std::thread::sleep(jittered(pause));
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let (Some(connection), Ok(address)) = (self.connection.take(), &self.address)
            && !connection.client.is_closed()
        {
            let mut idle = locked(&IDLE);
            if idle.len() < MAX_IDLE {
                idle.push((key(address), connection));
            }
        }
    }
}

/// A time around another, so that those who failed together do not try again together.
pub fn jittered(pause: Duration) -> Duration {
    let chance = RandomState::new().build_hasher().finish() % 1000;
    pause / 2 + pause * u32::try_from(chance).unwrap_or(0) / 1000
}

fn locked<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What tells the connections of this process apart.
fn key(address: &Address) -> String {
    format!("{address} {:?} {:?}", address.security, address.options)
}

/// A connection: one that is left, or a new one.
fn connection(address: &Address, anew: bool) -> Result<Connection, String> {
    let key = key(address);
    if !anew {
        let mut idle = locked(&IDLE);
        if let Some(at) = idle.iter().position(|(of, _)| *of == key) {
            return Ok(idle.swap_remove(at).1);
        }
    }
    if let Some((of, at, why)) = &*locked(&SILENT)
        && !anew
        && *of == key
        && at.elapsed() < DOWN
    {
        return Err(why.clone());
    }
    let connected = connect(address);
    *locked(&SILENT) = connected.as_ref().err().map(|why| (key, Instant::now(), why.clone()));
    connected.map(|client| Connection { client, prepared: Prepared::Never })
}

/// Connects to the first of the servers that will do.
fn connect(address: &Address) -> Result<Client, String> {
    let tls = Tls::of(&address.security)?;
    let mut failed = Vec::new();
    for host in &address.hosts {
        let config = config(address, host);
        let connected = match &tls {
            Some(tls) => config.connect(tls.clone()),
            None => config.connect(NoTls),
        };
        match connected {
            Ok(client) => return Ok(client),
            Err(error) => failed.push(match address.hosts.len() {
                1 => told(&error),
                _ => format!("{}: {}", host.name, told(&error)),
            }),
        }
    }
    failed.extend(address.notes.iter().cloned());
    Err(failed.join("; "))
}

fn config(address: &Address, host: &Host) -> Config {
    let mut config = Config::new();
    if host.name.starts_with('/') {
        config.host_path(Path::new(&host.name));
    } else {
        config.host(&host.name);
    }
    if let Some(password) = &host.password {
        config.password(password);
    }
    let own = address.options.as_deref().unwrap_or_default();
    config
        .port(host.port)
        .user(&address.user)
        .dbname(&address.database)
        .options(format!("{SETTINGS} {own}").trim_end())
        .application_name(&address.application)
        .connect_timeout(address.patience)
        // A server that is gone without a word is noticed.
        .tcp_user_timeout(Duration::from_secs(15))
        .keepalives_idle(Duration::from_secs(15))
        .ssl_mode(match address.security {
            Security::None => SslMode::Disable,
            Security::Preferred => SslMode::Prefer,
            _ => SslMode::Require,
        });
    if address.must_write {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    config
}

/// Whether it is not known what has become of a question.
fn is_lost(client: &Client, error: &Error) -> bool {
    let lost = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        // It was the first server, and is no longer.
        SqlState::READ_ONLY_SQL_TRANSACTION,
        // Others were in the way, and the server has given this one up.
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    match error.code() {
        Some(code) => lost.contains(code) || code.code().starts_with("08"),
        None => {
            client.is_closed()
                || error.source().is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
        }
    }
}

/// What an error says, with its cause.
fn told(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_string(),
        None => match error.source() {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        },
    }
}

fn unreachable(address: &Address, why: &str) -> StoreError {
    StoreError::Failed(format!("the store {address} cannot be reached: {why}"))
}

/// What the server's refusal means.
fn refused(address: &Address, error: &Error) -> StoreError {
    let missing = [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::UNDEFINED_COLUMN,
        SqlState::INVALID_SCHEMA_NAME,
    ];
    if error.code().is_some_and(|code| missing.contains(code)) {
        return StoreError::Failed(format!(
            "the store {address} does not have the tables of this version: \
             `phasegate store migrate` makes them"
        ));
    }
    StoreError::Failed(format!("the store {address} refuses: {}", told(error)))
}
