//! What a folder lies on. Locks and replaced files are only as good as the file system, and a folder that is copied
//! to other machines in the background has two writers. And how much a folder takes.

use std::fs;
use std::path::{Path, PathBuf};

/// File systems that other machines have a part in, by the number that the kernel knows them by.
const NETWORK: [(u64, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x0116_1970, "GFS2"),
    (0x786f_4256, "VirtualBox"),
];

/// How the folders of services are called that copy them to other machines, or how their names begin.
const FOLDERS: [(&str, &str); 8] = [
    ("Dropbox", "Dropbox"),
    ("OneDrive", "OneDrive"),
    ("Google Drive", "Google Drive"),
    ("GoogleDrive-", "Google Drive"),
    ("Mobile Documents", "iCloud"),
    ("iCloud Drive", "iCloud"),
    ("iCloudDrive", "iCloud"),
    ("Nextcloud", "Nextcloud"),
];

/// What such services leave in the folders that they copy.
const MARKS: [(&str, &str); 5] = [
    (".stfolder", "Syncthing"),
    (".dropbox", "Dropbox"),
    (".dropbox.cache", "Dropbox"),
    (".nextcloudsync.log", "Nextcloud"),
    (".owncloudsync.log", "ownCloud"),
];

/// The network file system that a path lies on.
pub fn network(path: &Path) -> Option<&'static str> {
    named(number(path)?)
}

#[cfg(target_os = "linux")]
fn number(path: &Path) -> Option<u64> {
    let found = rustix::fs::statfs(path).ok()?;
    // It has 32 bits, and is signed on some systems.
    Some(u64::try_from(found.f_type).ok()? & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn number(_path: &Path) -> Option<u64> {
    None
}

fn named(number: u64) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// The service that copies a folder, or one above it, to other machines; and which folder that is.
pub fn synced(path: &Path) -> Option<(&'static str, PathBuf)> {
    path.ancestors().find_map(|folder| {
        let name = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let is_called = |(start, _): &&(&str, &str)| {
            let rest = name.strip_prefix(start);
            // `Dropbox (Work)`, `OneDrive - Work`, `GoogleDrive-me@example.org`; and not `Dropbox-clone`.
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(' ') || start.ends_with('-')
            })
        };
        let is_marked = |(mark, _): &&(&str, &str)| folder.join(mark).symlink_metadata().is_ok();
        let called = FOLDERS.iter().find(is_called).or(MARKS.iter().find(is_marked));
        called.map(|(_, service)| (*service, folder.to_path_buf()))
    })
}

/// How many bytes a file, or a folder with all that is in it, takes. A link is not followed.
pub fn size(path: &Path) -> u64 {
    let Ok(meta) = path.symlink_metadata() else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
}

/// Removes a file, or a folder with all that is in it. A link goes, and not what it leads to.
///
/// # Errors
/// Where that cannot be removed.
pub fn remove(path: &Path) -> std::io::Result<()> {
    let is_folder = path.symlink_metadata()?.is_dir();
    if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_number() {
        assert_eq!(named(0x6969), Some("NFS"));
        assert_eq!(named(0xfe53_4d42), Some("SMB"));
        assert_eq!(named(0xef53), None, "ext4 is a disk of this machine");
        assert_eq!(named(0x0102_1994), None, "and tmpfs its memory");
        assert_eq!(network(Path::new("/proc")), None);
    }

    #[test]
    fn synced_folders_are_known_by_their_names() {
        let service = |path: &str| synced(Path::new(path)).map(|(service, _)| service);
        assert_eq!(service("/home/a/Dropbox/shop"), Some("Dropbox"));
        assert_eq!(service("/mnt/c/Users/a/OneDrive - Work/shop"), Some("OneDrive"));
        assert_eq!(service("/Users/a/Library/Mobile Documents/x/shop"), Some("iCloud"));
        assert_eq!(service("/home/a/Dropbox-clone/shop"), None);
    }
}
