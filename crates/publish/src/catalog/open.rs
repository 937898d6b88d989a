//! Opens catalogues by their settings.

use crate::catalog::Catalog;
use crate::catalog::folder::FolderCatalog;
use crate::catalog::rest::RestCatalog;
use crate::catalog::sql::SqlCatalog;
use crate::error::Error;
use crate::settings::{CatalogKind, CatalogSettings};

/// Opens a catalogue. Only an SQLite database is touched.
///
/// # Errors
/// When its place is not valid, or the database cannot be opened.
pub(crate) fn open(settings: &CatalogSettings, name: &str) -> Result<Box<dyn Catalog>, Error> {
    Ok(match settings.kind {
        CatalogKind::Folder => Box::new(FolderCatalog::open(&settings.place)?),
        CatalogKind::Sql => {
            let warehouse = settings.get("warehouse").unwrap_or_default();
            Box::new(SqlCatalog::open(&settings.place, name, warehouse)?)
        }
        CatalogKind::Rest => Box::new(RestCatalog::open(settings)?),
    })
}
