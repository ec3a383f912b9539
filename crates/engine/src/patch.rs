//! Patches as evidence: which files one changes.

use std::collections::BTreeSet;

/// The files that a patch changes, by the names it has for them, before or after.
pub fn files(patch: &[u8]) -> Vec<String> {
    let mut files = BTreeSet::new();
    // How many lines of the present hunk are still to come, old and new: what looks like a header
    // there is content.
    let (mut old, mut new) = (0usize, 0usize);
    for line in patch.split(|byte| *byte == b'\n') {
        if old > 0 || new > 0 {
            match line.first() {
                Some(b'-') => old = old.saturating_sub(1),
                Some(b'+') => new = new.saturating_sub(1),
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
            continue;
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if let Some(lines) = line.strip_prefix("@@ -") {
            (old, new) = hunk(lines);
            continue;
        }
        let name = ["--- ", "+++ ", "rename from ", "rename to ", "copy to "]
            .iter()
            .find_map(|start| line.strip_prefix(start));
        files.extend(name.and_then(plain));
        if let Some(both) = line.strip_prefix("diff --git a/") {
            // Of a binary or empty file there is no other line.
            files.extend(both.split_once(" b/").and_then(|(_, name)| plain(name)));
        }
    }
    files.into_iter().collect()
}

/// `1,3 +1,4 @@`: how many lines follow, old and new.
fn hunk(text: &str) -> (usize, usize) {
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().unwrap_or(0),
        None => 1,
    };
    let mut ranges = text.split(' ');
    let old = ranges.next().map_or(0, count);
    let new = ranges.next().and_then(|range| range.strip_prefix('+')).map_or(0, count);
    (old, new)
}

/// A name without the prefix that git puts before it, and without what may follow it.
fn plain(name: &str) -> Option<String> {
    let name = name.split('\t').next().unwrap_or(name).trim();
    let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    if name == "/dev/null" || name.is_empty() {
        return None;
    }
    let bare = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/"));
    Some(bare.unwrap_or(name).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_headers_and_not_by_content() {
        let patch = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,2 @@\n \n--- a/not/this\n+++ b/nor/this\ndiff --git a/new.bin b/new.bin\nnew file mode 100644\nBinary files differ\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\nrename from old name\nrename to new name\n";
        assert_eq!(
            files(patch.as_bytes()),
            ["gone", "new name", "new.bin", "old name", "src/a.rs"]
        );
        assert_eq!(files(b"--- ../../etc/passwd\n+++ ../../etc/passwd\n"), ["../../etc/passwd"]);
        assert!(files(b"no patch\n\xff").is_empty());
    }
}
