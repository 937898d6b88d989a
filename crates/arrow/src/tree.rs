//! The fields of a record type as a tree of Arrow columns, and the stored columns that each node needs.

use crate::error::Error;
use crate::types::{CONTENT, Decimals, Leaf, TYPE_KEY, dictionary};
use arrow_schema::{DataType, Field, Fields};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tapedb_codec::dynamic::Layouts;
use tapedb_schema::{FieldType, RecordType, Schema};
use tapedb_segment::{ColumnKind, Plan};

/// Name of the column that states which alternative a record is.
pub(crate) const TYPE: &str = "type";

/// Name of an array's item: Arrow's own.
const ITEM: &str = "item";

/// The fields of a record type.
#[derive(Debug, PartialEq)]
pub(crate) struct Tree {
    pub type_id: u16,
    pub nodes: Vec<Node>,
    /// The stored columns to read: nodes have indices into it.
    pub paths: Vec<String>,
}

/// A field or an item of an array.
#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    pub name: String,
    /// The column that states which values are present; `None`: all are.
    pub presence: Option<usize>,
    pub content: Content,
}

/// What a node holds. The numbers are those of stored columns.
#[derive(Debug, PartialEq)]
pub(crate) enum Content {
    Leaf(Leaf, usize),
    /// A record or an array that is stored in one piece; its type.
    Whole(FieldType, usize),
    /// Counts and items.
    List(usize, Box<Node>),
    /// The record type's id and its fields.
    Struct(u16, Vec<Node>),
    /// Tags and alternatives.
    Union(usize, Vec<Alternative>),
}

/// One of the record types that a field may hold.
#[derive(Debug, PartialEq)]
pub(crate) struct Alternative {
    pub name: String,
    pub type_id: u16,
    pub nodes: Vec<Node>,
}

impl Tree {
    /// The tree of a message type; of `wanted` fields only, in their order.
    ///
    /// # Errors
    /// When there is no such message type or field.
    pub fn new(layouts: &Layouts, record: &str, wanted: Option<&[String]>) -> Result<Self, Error> {
        let schema = layouts.schema();
        let found = schema.record(record).filter(|(_, record)| record.message);
        let Some((type_id, record)) = found else {
            return Err(Error::schema(record, "the stream has no such message type"));
        };
        let plan = Plan::new(layouts.clone());
        let columns = plan.group(type_id).map_or(&[][..], |group| group.columns());
        let mut seen = HashSet::new();
        if let Some(twice) = columns.iter().find(|column| !seen.insert(&column.path)) {
            let what = "two columns have this path; give a nested record type another name";
            return Err(Error::schema(&twice.path, what));
        }
        let kinds = columns.iter().map(|column| (column.path.as_str(), column.kind)).collect();
        let mut maker = Maker { schema, kinds, paths: Vec::new() };
        let nodes = match wanted {
            None => maker.fields(record, "")?,
            Some(wanted) => {
                let node = |name: &String| {
                    let field = record.fields.iter().find(|field| field.name == *name);
                    let field = field.ok_or_else(|| {
                        Error::schema(name, format!("record type {} has no such field", record.name))
                    })?;
                    maker.node(&field.name, &field.ty, field.nullable, &field.name)
                };
                wanted.iter().map(node).collect::<Result<_, _>>()?
            }
        };
        Ok(Self { type_id, nodes, paths: maker.paths })
    }
}

impl Node {
    /// The Arrow field.
    pub fn field(&self, decimals: Decimals) -> Field {
        let field = Field::new(&self.name, self.content.data_type(decimals), self.presence.is_some());
        let metadata = match &self.content {
            Content::Leaf(leaf, _) => leaf.metadata(decimals),
            Content::Whole(..) => Some(CONTENT),
            _ => None,
        };
        match metadata {
            Some(value) => field.with_metadata(HashMap::from([(TYPE_KEY.into(), value.into())])),
            None => field,
        }
    }
}

impl Content {
    fn data_type(&self, decimals: Decimals) -> DataType {
        match self {
            Self::Leaf(leaf, _) => leaf.data_type(decimals),
            Self::Whole(..) => DataType::BinaryView,
            Self::List(_, item) => DataType::List(Arc::new(item.field(decimals))),
            Self::Struct(_, nodes) => DataType::Struct(fields(nodes, decimals)),
            Self::Union(_, alternatives) => DataType::Struct(union_fields(alternatives, decimals)),
        }
    }
}

/// Arrow fields of nodes.
pub(crate) fn fields(nodes: &[Node], decimals: Decimals) -> Fields {
    nodes.iter().map(|node| node.field(decimals)).collect()
}

/// Arrow fields of a polymorphic record: its type, then a nullable struct for each alternative.
pub(crate) fn union_fields(alternatives: &[Alternative], decimals: Decimals) -> Fields {
    let alternatives = alternatives.iter().map(|alternative| {
        Field::new(&alternative.name, DataType::Struct(fields(&alternative.nodes, decimals)), true)
    });
    std::iter::once(Field::new(TYPE, dictionary(), false)).chain(alternatives).collect()
}

struct Maker<'a> {
    schema: &'a Schema,
    kinds: HashMap<&'a str, ColumnKind>,
    paths: Vec<String>,
}

impl Maker<'_> {
    fn column(&mut self, path: String) -> usize {
        self.paths.push(path);
        self.paths.len() - 1
    }

    fn fields(&mut self, record: &RecordType, path: &str) -> Result<Vec<Node>, Error> {
        let dot = if path.is_empty() { "" } else { "." };
        let fields = record.fields.iter();
        fields
            .map(|field| {
                self.node(&field.name, &field.ty, field.nullable, &format!("{path}{dot}{}", field.name))
            })
            .collect()
    }

    fn node(&mut self, name: &str, ty: &FieldType, nullable: bool, path: &str) -> Result<Node, Error> {
        let presence = nullable.then(|| self.column(format!("{path}?")));
        Ok(Node { name: name.into(), presence, content: self.content(ty, path)? })
    }

    fn content(&mut self, ty: &FieldType, path: &str) -> Result<Content, Error> {
        if let Some(leaf) = Leaf::of(ty, self.schema) {
            return Ok(Content::Leaf(leaf, self.column(path.into())));
        }
        if self.kinds.get(path) == Some(&ColumnKind::Bytes) {
            return Ok(Content::Whole(ty.clone(), self.column(path.into())));
        }
        match ty {
            FieldType::Array(item) => {
                let counts = self.column(path.into());
                let item = self.node(ITEM, &item.ty, item.nullable, &format!("{path}[]"))?;
                Ok(Content::List(counts, Box::new(item)))
            }
            FieldType::Record(names) => match &names[..] {
                [only] => {
                    let (type_id, record) = self.record(only, path)?;
                    Ok(Content::Struct(type_id, self.fields(record, path)?))
                }
                names => {
                    let tags = self.column(path.into());
                    let alternative = |name: &String| {
                        let (type_id, record) = self.record(name, path)?;
                        let nodes = self.fields(record, &format!("{path}.{name}"))?;
                        Ok(Alternative { name: name.clone(), type_id, nodes })
                    };
                    Ok(Content::Union(tags, names.iter().map(alternative).collect::<Result<_, Error>>()?))
                }
            },
            _ => Err(Error::schema(path, "this type has no columns; please report this with the schema")),
        }
    }
}

impl<'a> Maker<'a> {
    fn record(&self, name: &str, path: &str) -> Result<(u16, &'a RecordType), Error> {
        let schema: &'a Schema = self.schema;
        schema.record(name).ok_or_else(|| Error::schema(path, format!("there is no record type {name}")))
    }
}
