//! What a file is, before anything of it is compiled.

use std::fmt;
use std::str::FromStr;

use wasmparser::{KnownCustom, Parser, Payload};

use crate::model::names::UnknownName;

/// The version of `reprieve:policy` that this host speaks.
pub const VERSION: &str = "0.1.0";
const PACKAGE: &str = "reprieve:policy/";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// What a core module starts with.
pub(super) const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// A world of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Answers for itself.
    Policy,
    /// Passes some questions on.
    PolicyWithFallback,
    /// Has its settings checked.
    ConfigurablePolicy,
}

impl World {
    /// The name in the contract.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::PolicyWithFallback => "policy-with-fallback",
            Self::ConfigurablePolicy => "configurable-policy",
        }
    }
}

impl FromStr for World {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        const ALL: [World; 3] = [World::Policy, World::PolicyWithFallback, World::ConfigurablePolicy];
        ALL.into_iter().find(|world| world.name() == text).ok_or_else(|| UnknownName {
            what: "world",
            value: text.to_owned(),
            expected: ALL.iter().map(|world| world.name()).collect(),
        })
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a component imports and exports, and the tools that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The smallest world that it fits.
    pub world: World,
    /// Names of imports, in order.
    pub imports: Vec<String>,
    /// Names of exports, in order.
    pub exports: Vec<String>,
    /// Field, name and version of each tool.
    pub producers: Vec<(String, String, String)>,
}

/// Why a file is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// It is something else altogether.
    #[error("is not a WebAssembly component but {0}")]
    NotAComponent(&'static str),
    /// It starts like a component and goes on wrongly.
    #[error("is not a valid WebAssembly component: {0}")]
    Broken(String),
    /// It speaks another version of the contract.
    #[error(
        "was built against reprieve:policy {found}, but this host knows {VERSION}; build it again with this host's wit folder"
    )]
    Version {
        /// The version that it names.
        found: String,
    },
    /// It answers other questions.
    #[error("is of another world: it does not export {PACKAGE}recovery@{VERSION}; it exports {exports}")]
    World {
        /// What it exports, or `nothing`.
        exports: String,
    },
    /// It wants what no policy gets.
    #[error(
        "imports {names}, which no policy gets; allowed are {PACKAGE}host, {PACKAGE}recovery and WASI 0.2 without HTTP"
    )]
    Imports {
        /// The names.
        names: String,
    },
}

impl Shape {
    /// Reads the shape of a file.
    ///
    /// # Errors
    ///
    /// The file is no component, of another version or world, or imports what is forbidden.
    pub fn read(bytes: &[u8]) -> Result<Self, ShapeError> {
        what_else(bytes).map_or(Ok(()), |what| Err(ShapeError::NotAComponent(what)))?;
        let mut shape = Self { world: World::Policy, imports: Vec::new(), exports: Vec::new(), producers: Vec::new() };
        shape.fill(bytes).map_err(|error| ShapeError::Broken(error.to_string()))?;
        shape.check_versions()?;
        if !shape.exports_interface("recovery") {
            return Err(ShapeError::World { exports: listed(&shape.exports) });
        }
        shape.check_imports()?;
        shape.world = if shape.exports_interface("settings") {
            World::ConfigurablePolicy
        } else if shape.has_fallback() {
            World::PolicyWithFallback
        } else {
            World::Policy
        };
        Ok(shape)
    }

    /// Whether it passes questions on.
    #[must_use]
    pub fn has_fallback(&self) -> bool {
        self.imports.iter().any(|import| is_interface(import, "recovery"))
    }

    /// Whether it can ask for its settings.
    #[must_use]
    pub fn can_read_settings(&self) -> bool {
        self.imports.contains(&interface("host"))
    }

    /// Whether a host call can make it wait: only WASI has such calls.
    #[must_use]
    pub fn can_wait(&self) -> bool {
        self.imports.iter().any(|import| import.starts_with("wasi:"))
    }

    fn exports_interface(&self, name: &str) -> bool {
        self.exports.contains(&interface(name))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the other sections do not matter, and wasmparser adds some")]
    fn fill(&mut self, bytes: &[u8]) -> wasmparser::Result<()> {
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        self.imports.push(import?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        self.exports.push(export?.name.name.to_owned());
                    }
                }
                Payload::CustomSection(section) => self.add_producers(section.as_known())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn add_producers(&mut self, section: KnownCustom<'_>) -> wasmparser::Result<()> {
        let KnownCustom::Producers(fields) = section else { return Ok(()) };
        for field in fields {
            let field = field?;
            for value in field.values {
                let value = value?;
                let producer = (field.name.to_owned(), value.name.to_owned(), value.version.to_owned());
                if !self.producers.contains(&producer) {
                    self.producers.push(producer);
                }
            }
        }
        Ok(())
    }

    fn check_versions(&self) -> Result<(), ShapeError> {
        let ours = self.imports.iter().chain(&self.exports).filter_map(|name| name.strip_prefix(PACKAGE));
        for name in ours {
            let found = name.split_once('@').map_or("without a version", |(_, version)| version);
            if found != VERSION {
                return Err(ShapeError::Version { found: found.to_owned() });
            }
        }
        Ok(())
    }

    fn check_imports(&self) -> Result<(), ShapeError> {
        let forbidden: Vec<_> = self.imports.iter().filter(|name| !allowed(name)).cloned().collect();
        if forbidden.is_empty() { Ok(()) } else { Err(ShapeError::Imports { names: forbidden.join(", ") }) }
    }
}

fn allowed(import: &str) -> bool {
    if let Some(name) = import.strip_prefix(PACKAGE) {
        return ["host@", "types@", "recovery@"].iter().any(|known| name.starts_with(known));
    }
    let Some((package, name)) = import.split_once('/') else { return false };
    let Some((_, version)) = name.split_once('@') else { return false };
    matches!(package, "wasi:cli" | "wasi:clocks" | "wasi:filesystem" | "wasi:io" | "wasi:random" | "wasi:sockets")
        && version.starts_with("0.2.")
}

/// Whether an import is an interface of the contract. It puts no name together: this is asked for every instance.
fn is_interface(import: &str, name: &str) -> bool {
    let version =
        import.strip_prefix(PACKAGE).and_then(|rest| rest.strip_prefix(name)).and_then(|rest| rest.strip_prefix('@'));
    version == Some(VERSION)
}

fn interface(name: &str) -> String {
    format!("{PACKAGE}{name}@{VERSION}")
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// What a file is that is no component.
pub(super) fn what_else(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(COMPONENT) {
        None
    } else if bytes.is_empty() {
        Some("an empty file")
    } else if bytes.starts_with(CORE_MODULE) {
        Some("a core module; make a component of it: `reprieve policy componentize FILE -o POLICY.wasm`")
    } else if bytes.starts_with(b"\x7fELF") {
        Some("compiled code, which is never accepted; give the component that it was compiled from")
    } else if bytes.starts_with(b"\0asm") {
        Some("WebAssembly of an unknown kind")
    } else if std::str::from_utf8(bytes).is_ok() {
        Some("text")
    } else {
        Some("something else")
    }
}
