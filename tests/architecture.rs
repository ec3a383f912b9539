//! What ARCHITECTURE.md promises and a compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The sources of a crate, by file.
fn sources(name: &str) -> BTreeMap<PathBuf, String> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(path, text);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&root(name), &mut found);
    found
}

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

/// The sources of a crate without comments and tests, by module: `gate::commit`.
fn modules(name: &str) -> BTreeMap<String, String> {
    let root = root(name);
    let modules = sources(name).into_iter().map(|(path, text)| {
        let place = path.strip_prefix(&root).unwrap().with_extension("");
        let module = place.to_string_lossy().replace('/', "::");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let code = code.lines().map(|line| line.split("//").next().unwrap());
        (module, code.collect::<Vec<_>>().join("\n"))
    });
    modules.collect()
}

/// Which modules of its crate a module names. One below another is a part of it, and may name it.
fn uses(module: &str, code: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let above = module.rsplit_once("::").map_or("", |(above, _)| above);
    for (start, base) in [("crate::", ""), ("super::", above)] {
        for (at, _) in code.match_indices(start) {
            let rest = &code[at + start.len()..];
            let items: Vec<&str> = match rest.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap().split(',').collect(),
                None => vec![rest],
            };
            for item in items {
                let path: String = item
                    .trim()
                    .chars()
                    .take_while(|it| it.is_alphanumeric() || "_:".contains(*it))
                    .collect();
                let mut path = format!("{base}::{path}").trim_matches(':').to_string();
                while !all.contains_key(&path) {
                    let Some((shorter, _)) = path.rsplit_once("::") else { break };
                    path = shorter.trim_end_matches(':').to_string();
                }
                let is_part = module.starts_with(&format!("{path}::"));
                if all.contains_key(&path) && path != module && !is_part {
                    found.insert(path);
                }
            }
        }
    }
    found
}

#[test]
fn the_walks_name_functions_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let walks = text.split("## Four walks").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut named = 0;
    for line in walks.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
    {
        let mut parts = line.split('`').skip(1).step_by(2);
        let file = parts.next().unwrap();
        let code = std::fs::read_to_string(root.join(file)).unwrap();
        for function in parts {
            let is_there = [format!("fn {function}("), format!("fn {function}<")];
            assert!(
                is_there.iter().any(|it| code.contains(it)),
                "{file} has no {function}: {line}"
            );
            named += 1;
        }
    }
    assert!(named > 60, "{named}");
}

#[test]
fn no_module_needs_one_that_needs_it() {
    // An object of a document knows the record that it was declared to be, and a record has the
    // documents that are its defaults: these two are one thing in two files.
    let together = [("json", "types"), ("types", "json")];
    for crate_name in ["engine", "clients", "runtime", "phasegate"] {
        let all = modules(crate_name);
        let graph: BTreeMap<&str, BTreeSet<String>> =
            all.iter().map(|(module, code)| (module.as_str(), uses(module, code, &all))).collect();
        assert!(graph.values().map(BTreeSet::len).sum::<usize>() > 40, "{graph:?}");
        for start in graph.keys() {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&str> = vec![start];
            while let Some(module) = next.pop() {
                for other in &graph[module] {
                    if together.contains(&(module, other.as_str())) {
                        continue;
                    }
                    assert_ne!(
                        other, start,
                        "{crate_name}: {start} needs {module}, which needs it"
                    );
                    if seen.insert(other.clone()) {
                        next.push(other);
                    }
                }
            }
        }
    }
}

#[test]
fn the_engine_touches_nothing() {
    for (module, code) in modules("engine") {
        for world in ["fs", "env", "process", "net", "thread", "io"] {
            assert!(!code.contains(&format!("std::{world}")), "{module} uses std::{world}");
        }
    }
}

#[test]
fn one_place_writes_the_ledger_and_the_journal() {
    for (module, code) in modules("runtime") {
        if !module.starts_with("gate") || module.starts_with("gate::transaction") {
            continue;
        }
        for call in ["store.append(", "Key::Journal("] {
            assert!(!code.contains(call), "{module} has {call}");
        }
        let puts = code.match_indices(".put(&Key::Ledger").count();
        assert_eq!(puts, 0, "{module} writes a ledger");
    }
}

#[test]
fn only_one_file_reads_what_the_kernel_tells_of_processes() {
    for (module, code) in modules("runtime").into_iter().chain(modules("phasegate")) {
        assert!(module == "proc" || !code.contains("\"/proc"), "{module} reads /proc");
    }
}

/// The names of the clients, as the table has them: each is its module.
fn client_names() -> Vec<String> {
    let table = &modules("clients")["lib"];
    let table = table.split("static CLIENTS").nth(1).unwrap().split("];").next().unwrap();
    let entries = table.lines().filter_map(|line| line.trim().strip_prefix('&')?.split_once("::"));
    let names: Vec<String> = entries.map(|(module, _)| module.to_string()).collect();
    assert!(names.len() >= 8 && names[0] == "claude", "{names:?}");
    names
}

#[test]
fn nothing_knows_a_client_by_its_name() {
    // Examples for people, and the text of the schema that says what runs where nothing is named.
    let examples = [
        ("cli.rs", "phasegate init --client claude,codex"),
        ("drive.rs", "phasegate drive task/greet --agent codex"),
        ("jobs.rs", "or the list is empty: Claude Code."),
    ];
    let names = client_names();
    let mut seen = 0;
    for crate_name in ["engine", "runtime", "phasegate"] {
        for (path, text) in sources(crate_name) {
            let file = path.file_name().unwrap().to_str().unwrap();
            assert!(!text.contains("mise_agent_env"), "{} uses it", path.display());
            for line in text.lines() {
                let is_example =
                    |(place, words): &&(&str, &str)| *place == file && line.contains(words);
                if examples.iter().any(|example| is_example(&example)) {
                    seen += 1;
                    continue;
                }
                let lower = line.to_lowercase();
                let known = names.iter().find(|name| lower.contains(name.as_str()));
                assert!(known.is_none(), "{}: {line}", path.display());
            }
        }
    }
    assert_eq!(seen, 5, "an example is gone");
}

#[test]
fn one_reader_opens_what_others_can_write() {
    // What is opened otherwise, and why that keeps nobody waiting.
    let known = [
        ("outside", "File::open(path)", "what a person has named: it may be a pipe, and is capped"),
        ("proc", "fs::read", "the kernel's own files"),
        ("topics", "/dev/urandom", "the kernel's own file"),
        ("token", "/dev/urandom", "the kernel's own file"),
        ("jobs", "File::open(&new)?.sync_all()", "it was written in the line before"),
        ("whole_file", "File::open(folder)", "a folder"),
        ("whole_file", "create_new(true).open", "it is made, or nothing is opened"),
        ("paths", "create_new(true).open", "it is made, or nothing is opened"),
        ("locks", "File::open(folder)", "a folder"),
        ("fire", "stdout.read_to_string", "a pipe to a hook that is timed"),
        ("acp", "io::stdin().read_to_string", "the prompt that our own driver has written"),
    ];
    let mut used = BTreeSet::new();
    for crate_name in ["clients", "runtime", "phasegate"] {
        for (module, code) in modules(crate_name) {
            let name = module.rsplit("::").next().unwrap();
            // A chain of calls is one line.
            let code = code.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".");
            let calls = [
                "fs::read(",
                "fs::read_to_string(",
                "File::open(",
                ".read_to_string(",
                "true).open(",
            ];
            for call in calls {
                for (at, _) in code.match_indices(call) {
                    let around = at.saturating_sub(60)..(at + 60).min(code.len());
                    let around = String::from_utf8_lossy(&code.as_bytes()[around]);
                    let fits = |row: &&(&str, &str, &str)| row.0 == name && around.contains(row.1);
                    match known.iter().find(fits) {
                        Some(row) => used.insert(*row),
                        None => panic!("{crate_name}::{module} opens a file by itself: {around}"),
                    };
                }
            }
        }
    }
    let unused: Vec<_> = known.iter().filter(|row| !used.contains(*row)).collect();
    assert!(unused.is_empty(), "nobody does this any more: {unused:?}");
}
