//! From Rust types to a schema.

use crate::layout::Record;
use tapedb_schema::{EnumType, RecordType, Schema};

/// Collects the record types and enums that Rust types use.
///
/// ```
/// use tapedb_codec::{Record, SchemaBuilder};
///
/// /// A price.
/// #[derive(Record, Default)]
/// #[record(message)]
/// struct Tick { price: f64 }
///
/// let schema = SchemaBuilder::new().with::<Tick>().finish();
/// assert_eq!(schema.to_string(), "/// A price.\nmessage Tick {\n    price: f64,\n}\n");
/// ```
#[derive(Debug, Default)]
pub struct SchemaBuilder {
    schema: Schema,
}

impl SchemaBuilder {
    /// A builder without types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record type and the types it uses.
    pub fn with<T: Record>(mut self) -> Self {
        T::register(&mut self);
        self
    }

    /// The schema. Two Rust types of one name are the caller's mistake and show in [`Schema::validate`].
    pub fn finish(self) -> Schema {
        self.schema
    }

    /// Used by derives: adds a record type unless it is there. The name is taken first, then `fields` runs, so that
    /// record types may contain each other.
    pub fn record(
        &mut self,
        name: &str,
        message: bool,
        doc: &str,
        fields: impl FnOnce(&mut Self) -> Vec<tapedb_schema::Field>,
    ) -> u16 {
        if let Some((id, _)) = self.schema.record(name) {
            return id;
        }
        let id = self.schema.records.len();
        self.schema.records.push(RecordType {
            name: name.into(),
            message,
            fields: Vec::new(),
            doc: doc.into(),
        });
        self.schema.records[id].fields = fields(self);
        id as u16
    }

    /// Used by derives: adds an enum unless it is there.
    pub fn enumeration(&mut self, name: &str, doc: &str, symbols: &[(&str, i64)]) {
        if self.schema.enumeration(name).is_none() {
            let symbols = symbols.iter().map(|&(symbol, number)| (symbol.to_string(), number)).collect();
            self.schema.enums.push(EnumType { name: name.into(), symbols, doc: doc.into() });
        }
    }
}
