//! How a table of ours gets into a file of TOML and out again: it is put at the end, and everything
//! else stays as it is.

use toml::{Table, Value};

/// The text to put at the end of a file for a table; none where it has such a table.
///
/// # Errors
/// Where the text is not TOML, or the table does not fit into it.
pub fn addition(text: &str, header: &str, lines: &str) -> Result<Option<String>, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_string())?;
    if has(&file, header) {
        return Ok(None);
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let table = format!("{gap}[{header}]\n{lines}");
    let fits = format!("{text}{table}").parse::<Table>().is_ok();
    fits.then_some(Some(table)).ok_or_else(|| format!("`{header}` does not fit into it"))
}

/// Where a table of ours is, with the blank line before it. One that somebody has changed is theirs.
pub fn find(text: &str, header: &str, lines: &str) -> Option<(usize, usize)> {
    let table = format!("[{header}]\n{lines}");
    let at = text.find(&table)?;
    let is_whole = text[at + table.len()..].trim_start().starts_with('[')
        || text[at + table.len()..].trim().is_empty();
    let start = if text[..at].ends_with("\n\n") { at - 1 } else { at };
    is_whole.then_some((start, at + table.len()))
}

fn has(file: &Table, header: &str) -> bool {
    let mut names = header.split('.');
    let first = names.next().and_then(|name| file.get(name));
    names.fold(first, |here, name| here.and_then(|it: &Value| it.get(name))).is_some()
}
