//! Patches as evidence: which files one changes.

use std::collections::BTreeSet;

/// The files that a patch changes, by the names it has for them, before or after. A file counts when
/// something of it is changed: by a hunk, by a new mode or name, or as a binary.
pub fn files(patch: &[u8]) -> Vec<String> {
    let mut files = BTreeSet::new();
    // Names of which nothing has been changed yet.
    let mut named: Vec<String> = Vec::new();
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
            files.extend(named.drain(..));
        } else if let Some(both) = line.strip_prefix("diff --git ") {
            named = header(both);
        } else if let Some(name) = line.strip_prefix("--- ").or(line.strip_prefix("+++ ")) {
            // What the lines of a hunk are about is told here, whatever the header said.
            if line.starts_with("---") {
                named.clear();
            }
            named.extend(plain(name));
        } else if let Some(name) =
            ["rename from ", "rename to ", "copy to "].iter().find_map(|it| line.strip_prefix(it))
        {
            files.extend(unquoted(name));
        } else if CHANGES.iter().any(|start| line.starts_with(start)) {
            files.extend(named.iter().cloned());
        }
    }
    // A header that is cut off names nothing.
    files.into_iter().filter(|name| !name.is_empty()).collect()
}

/// Lines that change a file without a hunk.
const CHANGES: &[&str] =
    &["new file mode ", "deleted file mode ", "new mode ", "Binary files ", "GIT binary patch"];

/// The name of `a/NAME b/NAME`.
fn header(both: &str) -> Vec<String> {
    if both.starts_with('"') {
        let names = both.split("\" \"").map(|name| format!("\"{}\"", name.trim_matches('"')));
        return names.filter_map(|name| plain(&name)).collect();
    }
    // The names are the same, so the space between them is in the middle.
    let second = both.split_at_checked(both.len() / 2).map(|(_, second)| second);
    second.and_then(plain).into_iter().collect()
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
    let name = unquoted(name.split('\t').next().unwrap_or(name))?;
    if name == "/dev/null" {
        return None;
    }
    let bare = ["a/", "b/", "i/", "w/", "c/", "o/"].iter().find_map(|it| name.strip_prefix(it));
    Some(bare.unwrap_or(&name).to_string())
}

/// A name as git quotes it: `"\303\244.txt"`.
fn unquoted(name: &str) -> Option<String> {
    let name = name.trim();
    let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return (!name.is_empty()).then(|| name.to_string());
    };
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &tail[3..];
        } else if let Some((escaped, tail)) = tail.split_first() {
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                other => *other,
            });
            rest = tail;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
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
        let out = "--- ../../etc/passwd\n+++ ../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(files(out.as_bytes()), ["../../etc/passwd"]);
        assert!(files(b"no patch\n\xff").is_empty());
        assert!(files(b"--- a/x\n+++ b/x\n").is_empty(), "nothing of it is changed");
    }

    #[test]
    fn names_are_read_as_git_writes_them() {
        let quoted = "diff --git \"a/\\303\\244.txt\" \"b/\\303\\244.txt\"\n--- \"a/\\303\\244.txt\"\n+++ \"b/\\303\\244.txt\"\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(files(quoted.as_bytes()), ["ä.txt"]);
        let prefixed =
            "diff --git i/x y b/z i/x y b/z\n--- i/x y b/z\n+++ w/x y b/z\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(files(prefixed.as_bytes()), ["x y b/z"]);
        let empty = "diff --git a/dir/e b/dir/e\nnew file mode 100644\nindex 0..0\n";
        assert_eq!(files(empty.as_bytes()), ["dir/e"]);
    }
}
