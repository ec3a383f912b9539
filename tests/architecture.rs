//! What ARCHITECTURE.md promises and a compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The sources of a crate without comments and tests, by module: `gate::commit`.
fn modules(name: &str) -> BTreeMap<String, String> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                walk(root, &path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let place = path.strip_prefix(root).unwrap().with_extension("");
                let module = place.to_string_lossy().replace('/', "::");
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                let code = code.lines().map(|line| line.split("//").next().unwrap());
                found.insert(module, code.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut found = BTreeMap::new();
    walk(&root, &root, &mut found);
    found
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
fn no_module_needs_one_that_needs_it() {
    // An object of a document knows the record that it was declared to be, and a record has the
    // documents that are its defaults: these two are one thing in two files.
    let together = [("json", "types"), ("types", "json")];
    for crate_name in ["engine", "runtime", "phasegate"] {
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
        if !module.starts_with("gate") || module == "gate::transaction" {
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
