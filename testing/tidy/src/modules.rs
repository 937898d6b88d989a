//! Which files of a crate use which: the graph that [`circles`](crate::circles) looks at.
//!
//! A file uses another when it names one of its items, through any re-exports. A `pub use` alone is no use: it passes a name
//! on. What is compiled for tests only is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::source::{Kind, Token, tokens};
use crate::tree;

/// A module's path in its crate, such as `["read", "tail"]`; the root's is empty.
pub type ModulePath = Vec<String>;

/// The files of a crate and those that each uses.
pub type Graph = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

/// The graph of the crate in `folder`, from `src/lib.rs` or `src/main.rs`.
pub fn graph(folder: &Path) -> Graph {
    let source = folder.join("src");
    let root = ["lib.rs", "main.rs"].map(|name| source.join(name)).into_iter().find(|path| path.exists());
    let root = root.unwrap_or_else(|| panic!("{} has neither lib.rs nor main.rs", source.display()));
    graph_of(&|path: &[String]| {
        if path.is_empty() {
            return Some(tree::read(&root));
        }
        let stem: PathBuf = path.iter().fold(source.clone(), |folder, name| folder.join(name));
        let file = [stem.with_extension("rs"), stem.join("mod.rs")].into_iter().find(|file| file.exists());
        file.map(|file| tree::read(&file))
    })
}

/// The graph of the modules that `read` gives the source of.
fn graph_of(read: &dyn Fn(&[String]) -> Option<String>) -> Graph {
    let mut files = Files::default();
    files.load(Vec::new(), read);
    files.by_path.keys().map(|path| (path.clone(), files.used_by(path))).collect()
}

#[derive(Default)]
struct Files {
    by_path: BTreeMap<ModulePath, File>,
}

impl Files {
    fn load(&mut self, path: ModulePath, read: &dyn Fn(&[String]) -> Option<String>) {
        let Some(source) = read(&path) else { return };
        let file = File::parse(&source);
        for child in file.children.clone() {
            let mut below = path.clone();
            below.push(child);
            self.load(below, read);
        }
        self.by_path.insert(path, file);
    }

    fn used_by(&self, path: &ModulePath) -> BTreeSet<ModulePath> {
        let file = &self.by_path[path];
        let imported =
            file.imports.iter().filter(|import| !import.is_public || file.words.contains(&import.name));
        let named = imported.map(|import| &import.to).chain(&file.paths);
        let mut used: BTreeSet<_> = named.filter_map(|named| self.item(path, named, 0)).collect();
        used.remove(path);
        used
    }

    /// The file with the item that `named` leads to, seen from `path`; `None` for other crates and for whole modules.
    fn item(&self, path: &[String], named: &Named, depth: usize) -> Option<ModulePath> {
        match self.resolve(path, named, depth)? {
            Found::Item(file) => Some(file),
            Found::Module(_) => None,
        }
    }

    fn resolve(&self, path: &[String], named: &Named, depth: usize) -> Option<Found> {
        // Imports of a name from itself, in code that does not compile.
        if depth > 16 {
            return None;
        }
        let mut here: ModulePath = path.iter().chain(&named.inline).cloned().collect();
        let mut segments = named.segments.as_slice();
        match segments.first()?.as_str() {
            "crate" => here.clear(),
            "self" => {}
            "super" => {
                while segments.first().is_some_and(|segment| segment == "super") {
                    here.pop();
                    segments = &segments[1..];
                }
                return self.descend(here, segments, depth);
            }
            first if !self.is_known(&here, first) => return None,
            _ => return self.descend(here, segments, depth),
        }
        self.descend(here, &segments[1..], depth)
    }

    /// Whether a path in `here` may begin with this name: a child or an import.
    fn is_known(&self, here: &[String], name: &str) -> bool {
        let file = self.file_of(here);
        let mut child = here.to_vec();
        child.push(name.to_string());
        self.by_path.contains_key(&child) || self.by_path[&file].import(name).is_some()
    }

    fn descend(&self, mut here: ModulePath, segments: &[String], depth: usize) -> Option<Found> {
        for (index, segment) in segments.iter().enumerate() {
            let mut child = here.clone();
            child.push(segment.clone());
            if self.by_path.contains_key(&child) {
                here = child;
                continue;
            }
            let file = self.file_of(&here);
            let Some(import) = self.by_path[&file].import(segment) else { return Some(Found::Item(file)) };
            return match self.resolve(&file, &import.to, depth + 1)? {
                Found::Module(module) => self.descend(module, &segments[index + 1..], depth + 1),
                item => Some(item),
            };
        }
        Some(if self.by_path.contains_key(&here) {
            Found::Module(here)
        } else {
            Found::Item(self.file_of(&here))
        })
    }

    /// The file that the module `path` is in: inline modules belong to their file.
    fn file_of(&self, path: &[String]) -> ModulePath {
        let lengths = (0..=path.len()).rev();
        let file = lengths.map(|length| &path[..length]).find(|path| self.by_path.contains_key(*path));
        file.unwrap_or_default().to_vec()
    }
}

enum Found {
    Module(ModulePath),
    Item(ModulePath),
}

/// A path as written, and the inline modules that it is written in.
#[derive(Debug)]
struct Named {
    inline: Vec<String>,
    segments: Vec<String>,
}

struct Import {
    /// The name that it has here.
    name: String,
    to: Named,
    is_public: bool,
}

/// What a file's source says about modules.
#[derive(Default)]
struct File {
    /// Modules in files of their own.
    children: Vec<String>,
    imports: Vec<Import>,
    paths: Vec<Named>,
    /// All words outside imports.
    words: BTreeSet<String>,
}

impl File {
    fn parse(source: &str) -> Self {
        let tokens: Vec<_> = tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect();
        let mut parser =
            Parser { tokens: &tokens, at: 0, depth: 0, inline: Vec::new(), file: Self::default() };
        while parser.at < tokens.len() {
            parser.step();
        }
        parser.file
    }

    fn import(&self, name: &str) -> Option<&Import> {
        self.imports.iter().find(|import| import.name == name)
    }
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    depth: usize,
    /// Names of the inline modules around, with the depth of braces within each.
    inline: Vec<(String, usize)>,
    file: File,
}

impl Parser<'_> {
    fn is(&self, ahead: usize, text: &str) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|token| token.is(text))
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        self.tokens.get(self.at + ahead).filter(|token| token.kind == Kind::Word).map(|token| token.text)
    }

    fn step(&mut self) {
        if self.is(0, "#") && self.is(1, "[") {
            self.attribute();
        } else if self.is(0, "use") && !self.is(1, "<") && !self.is_in_path() {
            self.import();
        } else if self.is(0, "mod") && self.word(1).is_some() {
            self.module();
        } else if self.word(0).is_some() {
            self.path();
        } else {
            if self.is(0, "{") {
                self.depth += 1;
            } else if self.is(0, "}") {
                self.depth = self.depth.saturating_sub(1);
                if self.inline.last().is_some_and(|(_, depth)| *depth > self.depth) {
                    self.inline.pop();
                }
            }
            self.at += 1;
        }
    }

    fn is_in_path(&self) -> bool {
        self.at > 0 && self.tokens[self.at - 1].kind == Kind::PathSeparator
    }

    fn attribute(&mut self) {
        let end = self.closing(self.at + 1, "[", "]");
        let condition = &self.tokens[self.at + 2..end.min(self.tokens.len())];
        let is_off =
            condition.first().is_some_and(|word| word.is("cfg")) && holds(&condition[1..]) == Some(false);
        self.at = end + 1;
        if is_off {
            self.skip_item();
        }
    }

    /// The index of the bracket that closes the one at `from`.
    fn closing(&self, from: usize, open: &str, close: &str) -> usize {
        let mut depth = 0;
        for (index, token) in self.tokens.iter().enumerate().skip(from) {
            if token.is(open) {
                depth += 1;
            } else if token.is(close) {
                depth -= 1;
                if depth == 0 {
                    return index;
                }
            }
        }
        self.tokens.len()
    }

    /// Goes behind the item, field, arm or statement that begins here.
    fn skip_item(&mut self) {
        while self.is(0, "#") && self.is(1, "[") {
            self.at = self.closing(self.at + 1, "[", "]") + 1;
        }
        let begin = self.at;
        let first = self.tokens[begin..].iter().find(|token| {
            token.kind == Kind::Word
                && !["pub", "crate", "unsafe", "async", "in", "super", "self"].contains(&token.text)
        });
        let first = first.map_or("", |token| token.text);
        let ends_with_semicolon = ["use", "static", "type", "let"].contains(&first)
            || first == "const" && !self.tokens[begin..].iter().take(6).any(|token| token.is("fn"));
        let is_part = !ends_with_semicolon
            && !["fn", "mod", "impl", "struct", "enum", "trait", "macro_rules", "const", "extern"]
                .contains(&first);
        let mut depth = 0usize;
        while let Some(token) = self.tokens.get(self.at) {
            if ["(", "[", "{"].iter().any(|open| token.is(open)) {
                depth += 1;
            } else if [")", "]", "}"].iter().any(|close| token.is(close)) {
                if depth == 0 {
                    return;
                }
                depth -= 1;
                if depth == 0 && token.is("}") && !ends_with_semicolon {
                    self.at += 1;
                    return;
                }
            } else if depth == 0 && (token.is(";") || is_part && token.is(",")) {
                self.at += 1;
                return;
            }
            self.at += 1;
        }
    }

    fn names_of_inline(&self) -> Vec<String> {
        self.inline.iter().map(|(name, _)| name.clone()).collect()
    }

    fn module(&mut self) {
        let name = self.word(1).unwrap_or_default().to_string();
        if self.is(2, ";") {
            assert!(self.inline.is_empty(), "mod {name}; in an inline module: not expected in this tree");
            self.file.children.push(name);
        } else if self.is(2, "{") {
            self.depth += 1;
            self.inline.push((name, self.depth));
        }
        self.at += 3;
    }

    fn path(&mut self) {
        if self.is_in_path() || self.at > 0 && self.tokens[self.at - 1].is(".") {
            self.note_word();
            self.at += 1;
            return;
        }
        let mut segments = vec![self.word(0).unwrap_or_default().to_string()];
        self.note_word();
        self.at += 1;
        while self.is(0, "::")
            && let Some(next) = self.word(1)
        {
            segments.push(next.to_string());
            self.at += 2;
        }
        if segments.len() > 1 {
            self.file.paths.push(Named { inline: self.names_of_inline(), segments });
        }
    }

    fn note_word(&mut self) {
        let word = self.word(0).unwrap_or_default().to_string();
        self.file.words.insert(word);
    }

    fn import(&mut self) {
        let is_public = self.is_public();
        self.at += 1;
        let inline = self.names_of_inline();
        let mut found = Vec::new();
        self.use_tree(&mut Vec::new(), &mut found);
        for (name, segments) in found {
            self.file.imports.push(Import {
                name,
                to: Named { inline: inline.clone(), segments },
                is_public,
            });
        }
    }

    /// Whether `pub` or `pub(…)` stands before the word here.
    fn is_public(&self) -> bool {
        let before = &self.tokens[..self.at];
        match before.last() {
            Some(token) if token.is("pub") => true,
            Some(token) if token.is(")") => {
                let open = before.iter().rposition(|token| token.is("("));
                open.is_some_and(|open| open > 0 && before[open - 1].is("pub"))
            }
            _ => false,
        }
    }

    /// One tree of a `use`, up to its `,`, `}` or `;`.
    fn use_tree(&mut self, before: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
        let length = before.len();
        let mut name = None;
        while self.at < self.tokens.len() && !self.is(0, ",") && !self.is(0, "}") && !self.is(0, ";") {
            if self.is(0, "{") {
                self.at += 1;
                while !self.is(0, "}") && !self.is(0, ";") && self.at < self.tokens.len() {
                    self.use_tree(before, found);
                    if self.is(0, ",") {
                        self.at += 1;
                    }
                }
                self.at += 1;
                before.truncate(length);
                return;
            }
            if self.is(0, "as") {
                name = self.word(1).map(str::to_string);
                self.at += 2;
                continue;
            }
            if let Some(word) = self.word(0) {
                // `a::{self}` is `a`.
                if word != "self" || before.is_empty() {
                    before.push(word.to_string());
                }
            } else if self.is(0, "*") {
                before.push("*".to_string());
            }
            self.at += 1;
        }
        if let Some(last) = before.last() {
            found.push((name.unwrap_or_else(|| last.clone()), before.clone()));
        }
        before.truncate(length);
    }
}

/// What a condition comes to in a build without tests; `None` when that hangs on something else.
fn holds(tokens: &[Token<'_>]) -> Option<bool> {
    let tokens = match tokens {
        [open, within @ .., close] if open.is("(") && close.is(")") => within,
        other => other,
    };
    match tokens {
        [test] if test.is("test") => Some(false),
        [word, of @ ..] if word.is("not") => holds(of).map(|held| !held),
        [word, open, of @ .., close] if open.is("(") && close.is(")") => {
            let parts: Vec<_> = arguments(of).into_iter().map(holds).collect();
            let decided = word.is("any");
            if parts.contains(&Some(decided)) {
                Some(decided)
            } else if parts.iter().all(|part| *part == Some(!decided)) {
                Some(!decided)
            } else {
                None
            }
        }
        _ => None,
    }
}

fn arguments<'a, 'b>(tokens: &'a [Token<'b>]) -> Vec<&'a [Token<'b>]> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth -= 1;
        }
        depth == 0 && token.is(",")
    });
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The uses of a crate of these files, as `from > to`.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        let graph = graph_of(&|path| files.get(path.join("::").as_str()).map(|source| (*source).to_string()));
        let uses = graph.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        let uses: Vec<_> =
            uses.map(|(from, to)| format!("{} > {}", from.join("::"), to.join("::"))).collect();
        assert_eq!(uses, expected);
    }

    #[test]
    fn imports_and_paths_are_uses() {
        check(
            &[
                ("", "mod a; mod b; mod c;"),
                ("a", "use crate::b::B; fn f() { super::c::g() }"),
                ("b", ""),
                ("c", ""),
            ],
            &["a > b", "a > c"],
        );
    }

    #[test]
    fn groups_and_renames() {
        check(
            &[
                ("", "mod a; mod b;"),
                ("b", "pub mod c; pub mod d;"),
                ("a", "use crate::b::{c::{C as D, E}, d::{self}}; fn f() { d::g() }"),
                ("b::c", ""),
                ("b::d", ""),
            ],
            &["a > b::c", "a > b::d"],
        );
    }

    #[test]
    fn a_name_is_followed_to_where_it_is_defined() {
        let files = [
            ("", "mod a; mod b; pub use b::B;"),
            ("a", "use crate::B;"),
            ("b", "mod c; pub(crate) use c::C as B;"),
            ("b::c", ""),
        ];
        check(&files, &["a > b::c"]);
    }

    #[test]
    fn a_re_export_that_the_file_uses_too_is_a_use() {
        check(&[("", "mod b; pub use b::B;"), ("b", "")], &[]);
        check(&[("", "mod b; pub use b::B; struct A(B);"), ("b", "")], &[" > b"]);
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        let root = "mod a; mod b; #[cfg(test)] mod c;";
        check(
            &[
                ("", root),
                ("a", "#[cfg(test)] mod tests { use crate::b::B; }"),
                ("b", ""),
                ("c", "use crate::a::A;"),
            ],
            &[],
        );
        check(
            &[("", root), ("a", "#[cfg(test)] use crate::b::{B, C}; fn f() {}"), ("b", "use super::a::A;")],
            &["b > a"],
        );
        check(
            &[("", root), ("a", "struct S { #[cfg(all(test, unix))] b: crate::b::B, c: u8 }"), ("b", "")],
            &[],
        );
        check(&[("", root), ("a", "#[cfg(not(test))] use crate::b::B;"), ("b", "")], &["a > b"]);
        check(
            &[("", root), ("a", "#[cfg(any(test, feature = \"x\"))] use crate::b::B;"), ("b", "")],
            &["a > b"],
        );
    }

    #[test]
    fn inline_modules_belong_to_their_file() {
        check(
            &[("", "mod a; mod b;"), ("a", "mod x { use super::super::b::B; } fn f() { x::f() }"), ("b", "")],
            &["a > b"],
        );
    }

    #[test]
    fn other_crates_and_methods_are_no_uses() {
        check(
            &[
                ("", "mod a; mod b;"),
                ("a", "use std::b::B; fn f() { other::b::g(); self.b::<u8>() }"),
                ("b", ""),
            ],
            &[],
        );
    }

    #[test]
    fn children_are_used_by_their_names() {
        check(
            &[("", "mod a;"), ("a", "mod b; fn f() -> b::B {}"), ("a::b", "use super::A;")],
            &["a > a::b", "a::b > a"],
        );
    }
}
