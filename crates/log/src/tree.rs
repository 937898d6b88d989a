//! Names in directories, for the storages that keep files in memory. Files and directories have numbers, never used
//! twice, so that one can be renamed, replaced or removed while it is open.

use crate::storage::{Entry, Kind};
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The directory above all others.
pub(crate) const ROOT: usize = 0;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    File(usize),
    Directory(usize),
}

/// A name in a directory, taken or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) dir: usize,
    pub(crate) name: String,
}

/// One step that changes names.
#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    Set(Place, Link),
    Remove(Place),
    Rename(Place, Place),
}

/// Directories and what is in them. An empty one has no entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(BTreeMap<usize, BTreeMap<String, Link>>);

impl Tree {
    /// What is at a path. Relative ones begin at the root.
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

    /// Takes a name that is not taken yet.
    pub(crate) fn create(&self, path: &Path, link: Link) -> io::Result<NameChange> {
        let place = self.place(path)?;
        match self.at(&place) {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => Ok(NameChange::Set(place, link)),
        }
    }

    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<NameChange> {
        self.file(path)?;
        Ok(NameChange::Remove(self.place(path)?))
    }

    /// The next of the steps that remove a directory and all in it: what is deepest first, the directory last.
    pub(crate) fn remove_step(&self, dir: &Path) -> io::Result<NameChange> {
        let mut place = self.place(dir)?;
        let mut id = self.directory(dir)?;
        while let Some((name, link)) = self.names(id).next() {
            place = Place { dir: id, name: name.clone() };
            match link {
                Link::Directory(inner) => id = *inner,
                Link::File(_) => break,
            }
        }
        Ok(NameChange::Remove(place))
    }

    /// Renames as Unix does: onto a file, or onto a directory that is empty. `None` when both names are the same.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<Option<NameChange>> {
        let link = self.find(from)?;
        let (from_place, to_place) = (self.place(from)?, self.place(to)?);
        if let Link::Directory(_) = link
            && to.starts_with(from)
            && from != to
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match (link, self.at(&to_place)) {
            (Link::File(_), Some(Link::Directory(_))) => Err(io::ErrorKind::IsADirectory.into()),
            (Link::Directory(_), Some(Link::File(_))) => Err(io::ErrorKind::NotADirectory.into()),
            (Link::Directory(a), Some(Link::Directory(b))) if a != b && self.names(b).next().is_some() => {
                Err(io::ErrorKind::DirectoryNotEmpty.into())
            }
            _ if from_place == to_place => Ok(None),
            _ => Ok(Some(NameChange::Rename(from_place, to_place))),
        }
    }

    pub(crate) fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Set(place, link) => self.set(place, *link),
            NameChange::Remove(place) => {
                self.take(place);
            }
            NameChange::Rename(from, to) => {
                if let Some(link) = self.take(from) {
                    self.set(to, link);
                }
            }
        }
    }

    pub(crate) fn at(&self, place: &Place) -> Option<Link> {
        self.entry(place.dir, &place.name)
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

    /// The paths down to `dir` at which there is nothing, the highest first.
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

    fn place(&self, path: &Path) -> io::Result<Place> {
        let last = path.components().next_back().map(name_of).transpose()?.flatten();
        let name = last.ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let dir = self.directory(path.parent().unwrap_or(Path::new("")))?;
        Ok(Place { dir, name })
    }

    fn entry(&self, dir: usize, name: &str) -> Option<Link> {
        self.0.get(&dir)?.get(name).copied()
    }

    fn names(&self, dir: usize) -> impl Iterator<Item = (&String, &Link)> {
        self.0.get(&dir).into_iter().flatten()
    }

    fn set(&mut self, place: &Place, link: Link) {
        self.0.entry(place.dir).or_default().insert(place.name.clone(), link);
    }

    fn take(&mut self, place: &Place) -> Option<Link> {
        self.0.get_mut(&place.dir)?.remove(&place.name)
    }
}

impl NameChange {
    /// The directories whose names change.
    pub(crate) fn dirs(&self) -> [usize; 2] {
        match self {
            Self::Set(place, _) | Self::Remove(place) => [place.dir; 2],
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

/// The name that a component of a path is; none for those that stay where they are.
fn name_of(component: Component<'_>) -> io::Result<Option<&str>> {
    match component {
        Component::Normal(name) => name.to_str().map(Some).ok_or_else(|| io::ErrorKind::InvalidInput.into()),
        Component::RootDir | Component::CurDir => Ok(None),
        Component::ParentDir | Component::Prefix(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}
