//! Other people's settings: what is put in is there, and what is taken out leaves the rest as it was.

use phasegate_clients::settings::{Scope, value};
use phasegate_clients::{CLIENTS, splice};

use crate::fuzz;

#[test]
fn settings() {
    fuzz("settings", 3_000, Vec::new(), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
        // What the client itself cannot read is nobody's loss.
        if value(text).is_err() {
            return Ok(());
        }
        for client in CLIENTS {
            for settings in
                [Scope::Project, Scope::User].into_iter().flat_map(|it| client.settings(it))
            {
                // A file that is ours alone is not spliced.
                if settings.is_toml() || settings.is_own(text) {
                    continue;
                }
                let mut after = text.to_string();
                let spliced = settings.entries.iter().try_for_each(|entry| {
                    if let Some(splice) = splice::splice(&after, entry)? {
                        after.insert_str(splice.at, &splice.text);
                    }
                    Ok::<(), String>(())
                });
                if spliced.is_err() {
                    continue;
                }
                let (client, path) = (client.name(), settings.path.display());
                if value(&after).is_err() {
                    return Err(format!("{client}, {path}: broken by a splice: {after}"));
                }
                for entry in &settings.entries {
                    if splice::splice(&after, entry) != Ok(None) {
                        return Err(format!("{client}, {path}: spliced in twice: {after}"));
                    }
                }
                let without = splice::without(&after, &settings)?;
                for entry in &settings.entries {
                    let is_there = splice::without(&without, &settings).as_ref() != Ok(&without);
                    if is_there {
                        return Err(format!("{client}, {path}: {entry:?} stays: {without}"));
                    }
                }
                if value(&without).is_err() {
                    return Err(format!("{client}, {path}: broken by taking it out: {without}"));
                }
            }
        }
        Ok(())
    });
}
