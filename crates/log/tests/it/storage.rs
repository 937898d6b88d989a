//! All storages behave alike, and what the simulated one loses in a power cut.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_log::{DiskStorage, Kind, MemoryStorage, Storage};

#[test]
fn all_storages_behave_alike() {
    let home = tempfile::tempdir().unwrap();
    conform(&DiskStorage, home.path());
    conform(&MemoryStorage::new(), Path::new("/"));
    conform(&SimStorage::new(1), Path::new("/"));
}

fn conform(storage: &dyn Storage, home: &Path) {
    let root = home.join("a/b");
    storage.create_dir_all(&root).unwrap();
    storage.create_dir_all(&root).unwrap();
    files(storage, &root);
    directories(storage, &root);
    renames(storage, &root);
    locks(storage, &root);
    storage.sync_dir(&root).unwrap();
    storage.remove_dir_all(&home.join("a")).unwrap();
    assert_eq!(storage.kind(&root).unwrap(), None);
}

fn kind_of<T>(result: std::io::Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

fn names(storage: &dyn Storage, dir: &Path) -> Vec<(String, Kind)> {
    let mut names: Vec<_> = storage.entries(dir).unwrap().into_iter().map(|e| (e.name, e.kind)).collect();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    names
}

fn files(storage: &dyn Storage, root: &Path) {
    let path = root.join("file");
    for missing in [kind_of(storage.open_read(&path)), kind_of(storage.open_write(&path))] {
        assert_eq!(missing, ErrorKind::NotFound);
    }
    assert_eq!(kind_of(storage.remove(&path)), ErrorKind::NotFound);
    assert_eq!(kind_of(storage.create_new(&root.join("none/file"))), ErrorKind::NotFound);
    assert_eq!(storage.kind(&path).unwrap(), None);
    let file = storage.create_new(&path).unwrap();
    assert_eq!(kind_of(storage.create_new(&path)), ErrorKind::AlreadyExists);
    assert_eq!(storage.kind(&path).unwrap(), Some(Kind::File));
    assert!(file.is_empty().unwrap());
    file.write_at(b"hello", 3).unwrap();
    file.write_at(b"", 100).unwrap();
    file.sync_data().unwrap();
    let mut buf = [9; 10];
    assert_eq!((file.read_at(&mut buf, 2).unwrap(), &buf[..6]), (6, &b"\0hello"[..]));
    assert_eq!((file.read_at(&mut buf, 8).unwrap(), file.read_at(&mut buf, 1 << 40).unwrap()), (0, 0));
    storage.open_write(&path).unwrap().truncate(4).unwrap();
    file.truncate(6).unwrap();
    assert_eq!((storage.read(&path, 6).unwrap(), file.len().unwrap()), (b"\0\0\0h\0\0".to_vec(), 6));
    assert_eq!(kind_of(storage.read(&path, 5)), ErrorKind::FileTooLarge);
    // Written again it is the same file; replaced it is another, and open handles still read the old one.
    let before = file.identity().unwrap();
    storage.write(&path, b"new").unwrap();
    storage.sync_file(&path).unwrap();
    assert_eq!(
        (storage.read(&path, 9).unwrap(), storage.identity(&path).unwrap()),
        (b"new".to_vec(), before)
    );
    storage.write(&root.join("draft"), b"newer").unwrap();
    storage.rename(&root.join("draft"), &path).unwrap();
    let reader = storage.open_read(&path).unwrap();
    assert_ne!(storage.identity(&path).unwrap(), before);
    assert_eq!(
        (file.identity().unwrap(), reader.identity().unwrap()),
        (before, storage.identity(&path).unwrap())
    );
    assert_eq!((file.read_at(&mut buf, 0).unwrap(), &buf[..3]), (3, &b"new"[..]));
    assert_eq!((reader.read_at(&mut buf, 0).unwrap(), &buf[..5]), (5, &b"newer"[..]));
    storage.remove(&path).unwrap();
    assert_eq!((reader.read_at(&mut buf, 0).unwrap(), storage.kind(&path).unwrap()), (5, None));
    assert_eq!(kind_of(storage.identity(&path)), ErrorKind::NotFound);
    assert!(names(storage, root).is_empty());
}

fn directories(storage: &dyn Storage, root: &Path) {
    let (dir, inner) = (root.join("dir"), root.join("dir/inner"));
    assert_eq!(kind_of(storage.entries(&dir)), ErrorKind::NotFound);
    assert_eq!(kind_of(storage.create_dir(&inner)), ErrorKind::NotFound);
    storage.create_dir(&dir).unwrap();
    assert_eq!(kind_of(storage.create_dir(&dir)), ErrorKind::AlreadyExists);
    storage.create_dir(&inner).unwrap();
    storage.write(&dir.join("file"), b"").unwrap();
    storage.write(&inner.join("deep"), b"deep").unwrap();
    assert_eq!(names(storage, &dir), [("file".into(), Kind::File), ("inner".into(), Kind::Directory)]);
    assert_eq!(storage.list(&dir).unwrap(), ["file"]);
    assert_eq!(storage.kind(&inner).unwrap(), Some(Kind::Directory));
    assert!(storage.remove(&dir).is_err() && storage.create_new(&dir).is_err());
    assert_eq!(kind_of(storage.entries(&dir.join("file"))), ErrorKind::NotADirectory);
    assert_eq!(kind_of(storage.open_read(&dir.join("file/below"))), ErrorKind::NotADirectory);
    assert!(storage.create_dir_all(&dir.join("file")).is_err());
    storage.sync_dir(&inner).unwrap();
    assert_eq!(kind_of(storage.sync_dir(&root.join("none"))), ErrorKind::NotFound);
    storage.remove_dir_all(&dir).unwrap();
    assert_eq!(kind_of(storage.remove_dir_all(&dir)), ErrorKind::NotFound);
    assert!(names(storage, root).is_empty());
}

fn renames(storage: &dyn Storage, root: &Path) {
    let [from, to, file] = ["from", "to", "file"].map(|name| root.join(name));
    assert_eq!(kind_of(storage.rename(&from, &to)), ErrorKind::NotFound);
    storage.create_dir_all(&from.join("inner")).unwrap();
    storage.write(&from.join("inner/file"), b"moved").unwrap();
    storage.write(&file, b"").unwrap();
    let open = storage.open_read(&from.join("inner/file")).unwrap();
    storage.rename(&from, &to).unwrap();
    assert_eq!(storage.read(&to.join("inner/file"), 9).unwrap(), b"moved");
    assert_eq!((open.len().unwrap(), storage.kind(&from).unwrap()), (5, None));
    // Onto an empty directory, but no other.
    storage.create_dir(&from).unwrap();
    assert_eq!(kind_of(storage.rename(&from, &to)), ErrorKind::DirectoryNotEmpty);
    storage.rename(&to, &from).unwrap();
    assert_eq!(kind_of(storage.rename(&file, &from)), ErrorKind::IsADirectory);
    assert_eq!(kind_of(storage.rename(&from, &file)), ErrorKind::NotADirectory);
    assert_eq!(kind_of(storage.rename(&from, &from.join("inner/below"))), ErrorKind::InvalidInput);
    storage.rename(&file, &file).unwrap();
    storage.rename(&file, &from.join("file")).unwrap();
    assert_eq!(names(storage, root), [("from".into(), Kind::Directory)]);
    storage.remove_dir_all(&from).unwrap();
}

fn locks(storage: &dyn Storage, root: &Path) {
    let path = root.join("lock");
    let held = storage.try_lock(&path).unwrap();
    assert!(held.is_some() && storage.kind(&path).unwrap() == Some(Kind::File));
    assert!(storage.try_lock(&path).unwrap().is_none() && storage.try_lock(&path).unwrap().is_none());
    drop(held);
    let again = storage.try_lock(&path).unwrap();
    assert!(again.is_some() && storage.try_lock(&root.join("other")).unwrap().is_some());
    assert!(storage.try_lock(root).is_err());
}

fn path(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

/// Seeds differ in which unsynced changes survive a power cut.
fn outcomes(work: impl Fn(&SimStorage)) -> Vec<Vec<PathBuf>> {
    let mut found: Vec<_> = (0..100)
        .map(|seed| {
            let disk = SimStorage::new(seed);
            work(&disk);
            disk.restart(Stop::Power);
            disk.paths()
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn only_unsynced_names_may_be_lost() {
    let made = |synced: &'static [&str]| {
        outcomes(move |disk| {
            disk.create_dir(&path("dir")).unwrap();
            disk.write(&path("dir/file"), b"").unwrap();
            synced.iter().for_each(|dir| disk.sync_dir(&path(dir)).unwrap());
        })
    };
    let (nothing, file) = (vec![], vec![path("dir/file")]);
    assert_eq!(made(&[]), [nothing.clone(), file.clone()]);
    // The name of a directory is in the one above it.
    assert_eq!(made(&["dir"]), [nothing.clone(), file.clone()]);
    assert_eq!(made(&[""]), [nothing, file.clone()]);
    assert_eq!(made(&["dir", ""]), [file]);
}

#[test]
fn a_rename_is_atomic() {
    let renamed = |sync: bool| {
        outcomes(move |disk| {
            disk.create_dir_all(&path("streams/.new")).unwrap();
            disk.write(&path("streams/.new/a"), b"").unwrap();
            disk.write(&path("streams/.new/b"), b"").unwrap();
            ["streams/.new", "streams", ""].iter().for_each(|dir| disk.sync_dir(&path(dir)).unwrap());
            disk.rename(&path("streams/.new"), &path("streams/s")).unwrap();
            if sync {
                disk.sync_dir(&path("streams")).unwrap();
            }
        })
    };
    let (old, new) =
        (["a", "b"].map(|n| path("streams/.new").join(n)), ["a", "b"].map(|n| path("streams/s").join(n)));
    assert_eq!(renamed(false), [old.to_vec(), new.to_vec()]);
    assert_eq!(renamed(true), [new.to_vec()]);
    // Between two directories: what a synced rename depends on is synced with it.
    let moved = outcomes(|disk| {
        disk.create_dir(&path("x")).unwrap();
        disk.create_dir(&path("y")).unwrap();
        disk.sync_dir(&path("")).unwrap();
        disk.write(&path("x/file"), b"").unwrap();
        disk.rename(&path("x/file"), &path("y/file")).unwrap();
        disk.sync_dir(&path("y")).unwrap();
    });
    assert_eq!(moved, [[path("y/file")]]);
}

#[test]
fn removing_a_directory_may_be_torn_in_the_middle() {
    let make = |disk: &SimStorage| {
        disk.create_dir(&path("dir")).unwrap();
        ["a", "b", "c"].iter().for_each(|name| disk.write(&path("dir").join(name), b"").unwrap());
        ["dir", ""].iter().for_each(|dir| disk.sync_dir(&path(dir)).unwrap());
    };
    let torn = outcomes(|disk| {
        make(disk);
        disk.remove_dir_all(&path("dir")).unwrap();
    });
    assert_eq!(torn.len(), 4, "{torn:?}");
    // Killed in the middle: half is there, and the rest can be removed.
    let disk = SimStorage::new(1);
    make(&disk);
    disk.crash_at(disk.operations() + 3);
    assert!(disk.remove_dir_all(&path("dir")).is_err());
    disk.restart(Stop::Kill);
    assert_eq!(disk.paths(), [path("dir/c")]);
    disk.remove_dir_all(&path("dir")).unwrap();
    assert_eq!((disk.paths().len(), disk.kind(&path("dir")).unwrap()), (0, None));
}

#[test]
fn a_lock_does_not_outlive_its_process() {
    let disk = SimStorage::new(1);
    let earlier = disk.try_lock(&path("lock")).unwrap();
    disk.restart(Stop::Kill);
    let held = disk.try_lock(&path("lock")).unwrap();
    drop(earlier);
    assert!(held.is_some() && disk.try_lock(&path("lock")).unwrap().is_none());
}
