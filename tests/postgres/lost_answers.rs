//! Connections that are cut in the middle of a transition: it happens once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::server::{Server, shared};
use super::{Machine, two_machines};

/// Where the connection is cut that carries a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The server never hears of it.
    BeforeItIsSent,
    /// The server has carried it out, and its answer is lost.
    BeforeItsAnswer,
}

/// What stands between a client and the server.
struct Proxy {
    port: u16,
    cut: Arc<Mutex<Option<Cut>>>,
    /// How many transitions were asked for.
    asked: Arc<AtomicUsize>,
}

/// What a request for a transition has in it.
const TRANSITION: &[u8] = b"phasegate.commit_1";

impl Proxy {
    fn before(server: &Server) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, asked) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
        let (shared, count, to) = (cut.clone(), asked.clone(), server.port);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
                let (shared, count) = (shared.clone(), count.clone());
                std::thread::spawn(move || forward(&client, &server, &shared, &count));
            }
        });
        Proxy { port, cut, asked }
    }

    /// A machine whose way to the server is this one.
    fn machine(&self, server: &Server, other: &Machine) -> Machine {
        let url = other.url.replace(&format!(":{}/", server.port), &format!(":{}/", self.port));
        Machine::new(&url)
    }

    /// Cuts the next connection that carries a transition.
    fn cut_once(&self, cut: Cut) {
        *self.cut.lock().unwrap() = Some(cut);
        self.asked.store(0, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Passes on what is said, until one of them has enough, or the connection is to be cut.
fn forward(client: &TcpStream, server: &TcpStream, cut: &Mutex<Option<Cut>>, asked: &AtomicUsize) {
    let is_lost = Arc::new(Mutex::new(false));
    let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let lost = is_lost.clone();
    let back = std::thread::spawn(move || {
        let mut bytes = vec![0; 65536];
        while let Ok(count @ 1..) = answers.read(&mut bytes) {
            // By then the server has carried it out: it answers after its commit.
            if *lost.lock().unwrap() || to_client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = answers.shutdown(Shutdown::Both);
    });
    let (mut requests, mut to_server) = (client, server);
    let mut bytes = vec![0; 65536];
    while let Ok(count @ 1..) = requests.read(&mut bytes) {
        let text = &bytes[..count];
        if text.windows(TRANSITION.len()).any(|part| part == TRANSITION) {
            asked.fetch_add(1, Ordering::SeqCst);
            match cut.lock().unwrap().take() {
                None => {}
                Some(Cut::BeforeItsAnswer) => *is_lost.lock().unwrap() = true,
                Some(Cut::BeforeItIsSent) => break,
            }
        }
        if to_server.write_all(text).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    let _ = back.join();
}

#[test]
fn a_transition_whose_answer_is_lost_is_found_again_and_never_repeated() {
    let Some(server) = shared() else { return };
    let (other, _) = two_machines(server);
    let proxy = Proxy::before(server);
    let one = proxy.machine(server, &other);
    one.ok(&["start", "ship", "--name", "web"]);
    let database = other.url.rsplit('/').next().unwrap().split('?').next().unwrap().to_string();
    let count = |what: &str| server.sql(&database, &format!("SELECT {what} FROM phasegate.run"));
    for cut in [Cut::BeforeItsAnswer, Cut::BeforeItIsSent, Cut::BeforeItsAnswer] {
        let (seq, rev) = (count("seq"), count("rev"));
        proxy.cut_once(cut);
        one.stop_of("s1").blocks("Make `finished`.");
        assert_eq!(proxy.asked(), 2, "{cut:?}: it was asked for again");
        let next = |before: String| (before.parse::<u64>().unwrap() + 1).to_string();
        assert_eq!((count("seq"), count("rev")), (next(seq), next(rev)), "{cut:?}: once");
    }
    let operations = server.sql(&database, "SELECT count(*) FROM phasegate.operation");
    assert_eq!(operations, count("rev"), "each transition is remembered");
    one.ok(&["log", "--verify", "ship/web"]);
    // No line speaks of a process that died.
    let odd = "SELECT count(*) FROM phasegate.journal WHERE line LIKE '%but its process died%'";
    assert_eq!(server.sql(&database, odd), "0");
}

#[test]
fn a_run_whose_beginning_was_cut_begins_once() {
    let Some(server) = shared() else { return };
    let (other, _) = two_machines(server);
    let proxy = Proxy::before(server);
    let one = proxy.machine(server, &other);
    for (cut, name) in [(Cut::BeforeItsAnswer, "web"), (Cut::BeforeItIsSent, "app")] {
        proxy.cut_once(cut);
        let started = one.ok(&["start", "ship", "--name", name]);
        assert!(started.contains(&format!("ship/{name}")), "{started}");
    }
    let runs = one.json(&["status"]);
    let mut names: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ship/app", "ship/web"]);
}
