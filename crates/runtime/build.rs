//! Embeds the built-in workflows and the templates: every file under `workflows/` and `templates/`, as it lies there; a mark of each workflow,
//! by which a run knows that its definition is still the same; and what finding its runs needs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    // Only what lies in the folder of a workflow; the schema beside them is for editors.
    files.retain(|file| file.parent() != Some(&root));
    files.sort();
    let mut code = String::from("pub static FILES: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let path = file.to_string_lossy();
        writeln!(code, "    ({name:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    code.push_str("];\n\n");
    let mut of: BTreeMap<String, u64> = BTreeMap::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().into_owned();
        let Some((workflow, inner)) = name.split_once('/') else { continue };
        // What decisions depend on; cases and demos they do not.
        if !inner.contains('/') || inner.starts_with("prompts/") || inner.starts_with("templates/")
        {
            let hash = of.entry(workflow.to_string()).or_insert(0xcbf2_9ce4_8422_2325);
            for byte in name.bytes().chain(fs::read(file)?) {
                *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    code.push_str("pub static BUILT_IN: &[BuiltIn] = &[\n");
    for (workflow, hash) in of {
        let text = fs::read_to_string(root.join(&workflow).join("workflow.toml"))?;
        let (about, document) = (key(&text, "about"), key(&text, "document"));
        let (fallback, disable) = (key(&text, "fallback"), key(&text, "disable"));
        let presumed = key(&text, "presumed").is_some();
        let version = format!("built-in {} {hash:016x}", env!("CARGO_PKG_VERSION"));
        writeln!(
            code,
            "    BuiltIn {{ name: {workflow:?}, version: {version:?}, about: {about:?}, \
             document: {document:?}, fallback: {fallback:?}, disable: {disable:?}, \
             presumed: {presumed} }},"
        )
        .map_err(io::Error::other)?;
    }
    code.push_str("];\n");
    code.push_str(&templates()?);
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("builtin_files.rs"), code)
}

/// The templates of `phasegate new`, every file of each.
fn templates() -> io::Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut code = String::from("\npub static TEMPLATES: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let path = file.to_string_lossy();
        writeln!(code, "    ({name:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    code.push_str("];\n");
    Ok(code)
}

/// A root key of a definition of ours: a string on one line. A test reads them again, as TOML.
fn key<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let head = text.split("\n[").next().unwrap_or_default();
    let value =
        head.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    value?.trim().strip_prefix('"')?.strip_suffix('"')
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, files)?;
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
