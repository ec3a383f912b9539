//! The questions of the page: about runs of this project, or of other machines where it shows a fleet.

use std::path::Path;

use phasegate_runtime::project::Project;

use super::fleet::{self, Elsewhere};
use super::refused::Refused;
use super::{Query, Shows, view};

/// Answers a question of the page.
pub fn answer(root: &Path, name: &str, query: &Query, shows: Shows) -> Result<String, Refused> {
    let project = Project::open(root).map_err(|error| Refused::Failed(error.to_string()))?;
    if shows.fleet {
        if let Some(row) = query.get("run").and_then(fleet::elsewhere) {
            return Elsewhere::find(project, row)?.answer(name, query);
        }
        if name == "overview" {
            return Ok(fleet::overview(&project, &mut fleet::lookout()));
        }
    }
    view::answer(&project, name, query, shows.acts)
}
