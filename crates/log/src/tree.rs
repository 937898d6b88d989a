//! Names in directories, for the storages with files in memory. Files and directories have numbers, never used twice, so
//! that one can be renamed, replaced or removed while it is open.

use crate::storage::{Entry, Kind};
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The root directory.
pub(crate) const ROOT: usize = 0;

/// The target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    File(usize),
    Directory(usize),
}

/// A name in a directory, which may exist or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirName {
    pub(crate) dir: usize,
    pub(crate) name: String,
}

/// One step that changes names.
#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    Set(DirName, Link),
    Remove(DirName),
    Rename(DirName, DirName),
}

/// Directories and their entries. An empty one is not in the map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(BTreeMap<usize, BTreeMap<String, Link>>);

impl Tree {
    /// The target of a path. Relative paths begin at the root.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Link> {
        let mut at = Link::Directory(ROOT);
        for component in path.components() {
            if let Some(name) = name_of(component)? {
                let Link::Directory(dir) = at else { return Err(io::ErrorKind::NotADirectory.into()) };
                at = self.entry(dir, name).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(at)
    }

    pub(crate) fn file(&self, path: &Path) -> io::Result<usize> {
        match self.find(path)? {
            Link::File(id) => Ok(id),
            Link::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(crate) fn directory(&self, path: &Path) -> io::Result<usize> {
        match self.find(path)? {
            Link::Directory(id) => Ok(id),
            Link::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(crate) fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match self.find(path) {
            Ok(link) => Ok(Some(link.kind())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let dir = self.directory(dir)?;
        let entry = |(name, link): (&String, &Link)| Entry { name: name.clone(), kind: link.kind() };
        Ok(self.names(dir).map(entry).collect())
    }

    /// Adds a name that must not exist yet.
    pub(crate) fn create(&self, path: &Path, link: Link) -> io::Result<NameChange> {
        let name = self.dir_name(path)?;
        match self.at(&name) {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => Ok(NameChange::Set(name, link)),
        }
    }

    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<NameChange> {
        self.file(path)?;
        Ok(NameChange::Remove(self.dir_name(path)?))
    }

    /// The next of the steps that remove a directory and its content: the deepest first, the directory last.
    pub(crate) fn remove_step(&self, dir: &Path) -> io::Result<NameChange> {
        let mut next = self.dir_name(dir)?;
        let mut id = self.directory(dir)?;
        while let Some((name, link)) = self.names(id).next() {
            next = DirName { dir: id, name: name.clone() };
            match link {
                Link::Directory(inner) => id = *inner,
                Link::File(_) => break,
            }
        }
        Ok(NameChange::Remove(next))
    }

    /// Renames as Unix does: onto a file, or onto a directory that is empty. `None` when both names are the same.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<Option<NameChange>> {
        let link = self.find(from)?;
        let (from_name, to_name) = (self.dir_name(from)?, self.dir_name(to)?);
        if let Link::Directory(_) = link
            && to.starts_with(from)
            && from != to
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match (link, self.at(&to_name)) {
            (Link::File(_), Some(Link::Directory(_))) => Err(io::ErrorKind::IsADirectory.into()),
            (Link::Directory(_), Some(Link::File(_))) => Err(io::ErrorKind::NotADirectory.into()),
            (Link::Directory(a), Some(Link::Directory(b))) if a != b && self.names(b).next().is_some() => {
                Err(io::ErrorKind::DirectoryNotEmpty.into())
            }
            _ if from_name == to_name => Ok(None),
            _ => Ok(Some(NameChange::Rename(from_name, to_name))),
        }
    }

    pub(crate) fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Set(name, link) => self.set(name, *link),
            NameChange::Remove(name) => {
                self.take(name);
            }
            NameChange::Rename(from, to) => {
                if let Some(link) = self.take(from) {
                    self.set(to, link);
                }
            }
        }
    }

    pub(crate) fn at(&self, name: &DirName) -> Option<Link> {
        self.entry(name.dir, &name.name)
    }

    /// All files that have a name, by path.
    pub(crate) fn files(&self) -> Vec<(PathBuf, usize)> {
        let (mut found, mut dirs) = (Vec::new(), vec![(PathBuf::from("/"), ROOT)]);
        while let Some((path, dir)) = dirs.pop() {
            for (name, link) in self.names(dir) {
                match link {
                    Link::File(id) => found.push((path.join(name), *id)),
                    Link::Directory(id) => dirs.push((path.join(name), *id)),
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The missing directories of the path `dir`, the highest first.
    pub(crate) fn missing_down_to(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        for path in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            match self.kind(path)? {
                None => missing.push(path.to_path_buf()),
                Some(Kind::Directory) => break,
                Some(Kind::File) => return Err(io::ErrorKind::NotADirectory.into()),
            }
        }
        missing.reverse();
        Ok(missing)
    }

    fn dir_name(&self, path: &Path) -> io::Result<DirName> {
        let last = path.components().next_back().map(name_of).transpose()?.flatten();
        let name = last.ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let dir = self.directory(path.parent().unwrap_or(Path::new("")))?;
        Ok(DirName { dir, name })
    }

    fn entry(&self, dir: usize, name: &str) -> Option<Link> {
        self.0.get(&dir)?.get(name).copied()
    }

    fn names(&self, dir: usize) -> impl Iterator<Item = (&String, &Link)> {
        self.0.get(&dir).into_iter().flatten()
    }

    fn set(&mut self, name: &DirName, link: Link) {
        self.0.entry(name.dir).or_default().insert(name.name.clone(), link);
    }

    fn take(&mut self, name: &DirName) -> Option<Link> {
        self.0.get_mut(&name.dir)?.remove(&name.name)
    }
}

impl NameChange {
    /// The directories whose names change.
    pub(crate) fn dirs(&self) -> [usize; 2] {
        match self {
            Self::Set(name, _) | Self::Remove(name) => [name.dir; 2],
            Self::Rename(from, to) => [from.dir, to.dir],
        }
    }
}

impl Link {
    fn kind(self) -> Kind {
        match self {
            Self::File(_) => Kind::File,
            Self::Directory(_) => Kind::Directory,
        }
    }
}

/// The name in a component of a path; `None` for the root and `.`.
fn name_of(component: Component<'_>) -> io::Result<Option<&str>> {
    match component {
        Component::Normal(name) => name.to_str().map(Some).ok_or_else(|| io::ErrorKind::InvalidInput.into()),
        Component::RootDir | Component::CurDir => Ok(None),
        Component::ParentDir | Component::Prefix(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}
