//! What doctor says about where a project and the user's folders lie.

use phasegate_runtime::config::state_folder;
use phasegate_runtime::filesystem;

use super::{Doctor, Status};

impl Doctor<'_> {
    /// Locks hold where one machine has the disk, and files are replaced whole where nothing else writes them.
    pub(super) fn places(&mut self) {
        let root = self.project.root.clone();
        let state = state_folder().filter(|state| !state.starts_with(&root));
        // The state folder may not be there yet; then what counts is where it will be.
        let state = state.as_deref().map(|state| {
            state.ancestors().find(|folder| folder.exists()).unwrap_or(state).to_path_buf()
        });
        for (what, folder) in [("this project", Some(root)), ("your state folder", state)] {
            let Some(folder) = folder else { continue };
            let shown = folder.display();
            if let Some(kind) = filesystem::network(&folder) {
                let summary = format!(
                    "{what} is on a network file system ({kind}): locks may not hold there between machines"
                );
                let remedy = format!(
                    "move {shown} to a local disk, or let agents work in it from one machine at a time"
                );
                self.row("place.network", "project", Status::Warn, summary, Some(remedy));
            }
            if let Some((service, folder)) = filesystem::synced(&folder) {
                let summary = format!(
                    "{what} is in a folder that {service} copies to other machines: it may put back old files of a run"
                );
                let remedy = format!(
                    "move {shown} out of {}, or exclude `.phasegate` there",
                    folder.display()
                );
                self.row("place.synced", "project", Status::Warn, summary, Some(remedy));
            }
        }
    }
}
