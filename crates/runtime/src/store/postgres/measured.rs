//! What a transition costs beside the same transaction by hand: `cargo test -p phasegate-runtime --lib -- --ignored
//! --nocapture a_transition_costs`. Both are measured in turns in one run, so that a busy machine makes both slower.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use phasegate_engine::digest::digest;
use postgres::{Client, NoTls, Statement};

use super::PostgresStore;
use crate::run::RunId;
use crate::store::server::Server;
use crate::store::{Batch, Key, Put, Store, Version};

/// Short rounds in turns, so that what else the machine does falls on both alike; the ratio is the median of those of
/// neighbours.
const ROUNDS: usize = 25;
const ROUND: Duration = Duration::from_millis(500);

/// How large a ledger and a line of the journal are.
const LEDGER: usize = 3000;
const LINE: usize = 900;

/// The same transaction in one prepared statement: compare-and-set, line, operation.
const BY_HAND: &str = "WITH u AS (UPDATE phasegate.value SET version = $4, bytes = $5 \
       WHERE run = $1 AND kind = 'ledger' AND version = $3 RETURNING run), \
     r AS (UPDATE phasegate.run SET rev = rev + 1, seq = $2, head = $6, changed = clock_timestamp() \
       FROM u WHERE id = u.run), \
     j AS (INSERT INTO phasegate.journal (run, seq, line) SELECT run, $2, $7 FROM u) \
     INSERT INTO phasegate.operation (id) SELECT $8 FROM u";

/// A writer that has a run of its own.
trait Writer {
    fn write(&mut self, seq: i64);
}

struct ByStore {
    store: PostgresStore,
    run: RunId,
    version: Option<Version>,
}

struct ByHand {
    client: Client,
    statement: Statement,
    id: i64,
    version: String,
}

fn ledger(seq: i64) -> Vec<u8> {
    format!("{{\"turn\":{seq},\"text\":\"{}\"}}\n", "x".repeat(LEDGER)).into_bytes()
}

fn line(seq: i64) -> String {
    let (prev, text) =
        (if seq > 1 { (seq - 1).to_string() } else { String::new() }, "y".repeat(LINE));
    format!("{{\"seq\":{seq},\"text\":\"{text}\",\"prev\":\"{prev}\",\"hash\":\"{seq}\"}}")
}

impl Writer for ByStore {
    fn write(&mut self, seq: i64) {
        let (bytes, line) = (ledger(seq), line(seq));
        let version = Version::of_document(&bytes);
        let put = Put { key: Key::Ledger(self.run.clone()), expected: self.version.take(), bytes };
        let batch = Batch { line: Some(&line), puts: vec![put], open: true, ..Batch::default() };
        self.store.commit(&self.run, &batch).unwrap();
        self.version = Some(version);
    }
}

impl Writer for ByHand {
    fn write(&mut self, seq: i64) {
        let (bytes, line, head) = (ledger(seq), line(seq), seq.to_string());
        let version = digest(&bytes);
        let operation = crate::jobs::secret().unwrap();
        let operation = &operation.as_bytes()[..32];
        let written = self.client.execute(
            &self.statement,
            &[&self.id, &seq, &self.version, &version, &bytes, &head, &line, &operation],
        );
        assert_eq!(written.unwrap(), 1);
        self.version = version;
    }
}

/// Has them all write for a while; how long each write took, sorted.
fn round(writers: &mut [(i64, Box<dyn Writer + Send>)]) -> Vec<Duration> {
    let start = Barrier::new(writers.len());
    let mut all: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|(seq, writer)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let since = Instant::now();
                    let mut took = Vec::new();
                    while since.elapsed() < ROUND {
                        *seq += 1;
                        let one = Instant::now();
                        writer.write(*seq);
                        took.push(one.elapsed());
                    }
                    took
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort();
    all
}

#[test]
#[ignore = "it measures for a minute"]
fn a_transition_costs_at_most_half_as_much_again_as_the_same_by_hand() {
    let Some(server) = Server::start(&[]) else { return crate::store::server::skip("PostgreSQL") };
    let folder = tempfile::tempdir().unwrap();
    let url = server.database();
    let store = || PostgresStore::new(folder.path(), &url, Some("measured"));
    store().migrate().unwrap();
    for count in [1, 32] {
        let mut by_store: Vec<(i64, Box<dyn Writer + Send>)> = Vec::new();
        let mut by_hand: Vec<(i64, Box<dyn Writer + Send>)> = Vec::new();
        for number in 0..count {
            for is_store in [true, false] {
                let run =
                    RunId { workflow: format!("w{count}"), name: format!("{number}{is_store}") };
                let mut first = ByStore { store: store(), run: run.clone(), version: None };
                first.write(1);
                if is_store {
                    by_store.push((1, Box::new(first)));
                    continue;
                }
                let mut client = Client::connect(&url, NoTls).unwrap();
                let id = "SELECT id FROM phasegate.run WHERE workflow = $1 AND name = $2";
                let id = client.query_one(id, &[&run.workflow, &run.name]).unwrap().get(0);
                let (statement, version) = (client.prepare(BY_HAND).unwrap(), digest(&ledger(1)));
                by_hand.push((1, Box::new(ByHand { client, statement, id, version })));
            }
        }
        let (mut stores, mut hands, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (one, other) = (round(&mut by_store), round(&mut by_hand));
            let middle = |all: &[Duration]| all[all.len() / 2].as_secs_f64();
            ratios.push(middle(&one) / middle(&other));
            stores.extend(one);
            hands.extend(other);
        }
        ratios.sort_by(f64::total_cmp);
        stores.sort();
        hands.sort();
        let at =
            |all: &[Duration], percent: usize| all[all.len() * percent / 100].as_secs_f64() * 1e3;
        let ratio = ratios[ROUNDS / 2];
        let total = |all: &[Duration]| all.len() * 2 / ROUNDS;
        println!(
            "{count:>2} writers: store {:.2} / {:.2} ms p50/p99, {}/s; by hand {:.2} / {:.2} ms, {}/s; ratio {ratio:.2}",
            at(&stores, 50),
            at(&stores, 99),
            total(&stores),
            at(&hands, 50),
            at(&hands, 99),
            total(&hands),
        );
        assert!(ratio <= 1.5, "{count} writers: {ratio:.2}");
    }
}
