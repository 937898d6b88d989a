//! The folder of topics: of a database, or of the machine.

use std::path::{Path, PathBuf};
use tapedb_terminal::{Failure, location};
use tapedb_topic::{Folder, Topic};

/// Location of topics.
#[derive(clap::Args, Debug, Clone)]
pub struct FolderArgs {
    /// Topics of this database; without it, topics without a database.
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    db: Option<PathBuf>,

    /// Folder with the topics' files, instead of the usual one.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl FolderArgs {
    /// The folder.
    pub fn folder(&self) -> Result<Folder, Failure> {
        match (&self.folder, &self.db) {
            (Some(folder), _) => Ok(Folder::at(folder)),
            (None, Some(db)) => of_database(location::directory(db)?),
            (None, None) => Ok(Folder::shared()),
        }
    }
}

/// One topic, and where it is.
#[derive(clap::Args, Debug, Clone)]
pub struct TopicArgs {
    #[command(flatten)]
    folder: FolderArgs,

    /// The topic.
    #[arg(id = "topic", value_name = "TOPIC")]
    pub name: String,
}

impl TopicArgs {
    /// The folder that it is in.
    pub fn folder(&self) -> Result<Folder, Failure> {
        self.folder.folder()
    }

    /// Opens it.
    pub fn open(&self) -> Result<Topic, Failure> {
        Ok(Topic::open(&self.folder()?, &self.name)?)
    }
}

/// The folder with the topics of a database.
pub fn of_database(directory: &Path) -> Result<Folder, Failure> {
    Ok(Folder::of_database(directory)?)
}
