//! Path patterns: `*` for any part of one path component, `**` for any number of components,
//! `?` for one character.

/// Whether the pattern matches the whole path.
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    components(&pattern, &path)
}

fn components(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        // At the end it stands for all that is inside.
        (Some((&"**", [])), _) => !path.is_empty(),
        (Some((&"**", rest)), _) => {
            components(rest, path)
                || path.split_first().is_some_and(|(_, tail)| components(pattern, tail))
        }
        (Some((first, rest)), Some((name, tail))) => {
            component(first, name) && components(rest, tail)
        }
        _ => false,
    }
}

/// Whether a pattern without `/` matches one path component. A name that starts with a dot is
/// matched only by a pattern that does too.
pub fn component(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => {
                p += 1;
                n += 1;
            }
            // Give the last star one character more.
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether a path component is a pattern.
pub fn is_pattern(component: &str) -> bool {
    component.contains(['*', '?'])
}

/// The leading components without a pattern: where a search has to start.
pub fn fixed_prefix(pattern: &str) -> &str {
    match pattern.split('/').find(|component| is_pattern(component)) {
        None => pattern,
        Some(first) => {
            let at = first.as_ptr() as usize - pattern.as_ptr() as usize;
            pattern[..at].trim_end_matches('/')
        }
    }
}

/// What the one `*` of a pattern stands for in a path; the empty text where there is no `*`.
pub fn capture<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, after)) = pattern.split_once('*') else {
        return (pattern == path).then_some("");
    };
    let name = path.strip_prefix(before)?.strip_suffix(after)?;
    (!name.contains('/') && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, path, expected) in [
            ("a/*.md", "a/b.md", true),
            ("a/*.md", "a/b/c.md", false),
            ("a/**/*.md", "a/b/c.md", true),
            ("a/**/*.md", "a/c.md", true),
            ("a/*/**", "a/b/c/d.md", true),
            ("a/*/**", "a/b.md", false),
            ("*_triage.json", "x_triage.json", true),
            ("*_triage.json", "x_triage.json.bak", false),
            ("*", ".hidden", false),
            ("plan_?.md", "plan_1.md", true),
            ("plan_?.md", "plan_10.md", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_star_captures_the_runs_name() {
        assert_eq!(capture("t/*_triage.json", "t/web_triage.json"), Some("web"));
        assert_eq!(capture("t/*_triage.json", "t/_triage.json"), None);
        assert_eq!(capture("t/*/state.json", "t/a/b/state.json"), None);
        assert_eq!(capture("t/state.json", "t/state.json"), Some(""));
        assert_eq!(fixed_prefix("a/b/*/c"), "a/b");
        assert_eq!(fixed_prefix("a/b*"), "a");
        assert_eq!(fixed_prefix("a/b"), "a/b");
    }
}
