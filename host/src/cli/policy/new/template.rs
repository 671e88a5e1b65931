//! The projects that `policy new` makes: the examples of this repository, under another name.

use crate::policy::CONTRACT;

/// The name of the examples, where a project has its own.
const EXAMPLE: &str = "inventory";
const README: &str = include_str!("readme.md");

macro_rules! example {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/policies/", $path))
    };
}

/// A language that a project can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// With wit-bindgen
    #[value(alias = "rs")]
    Rust,
    /// With componentize-py
    #[value(alias = "py")]
    Python,
    /// With componentize-qjs
    #[value(name = "javascript", alias = "js")]
    JavaScript,
    /// With clang and the bindings of `policy bindings`
    C,
}

/// What is particular about a language.
struct Template {
    name: &'static str,
    source: &'static str,
    needs: &'static str,
    /// Paths in the project with what they hold.
    files: &'static [(&'static str, &'static str)],
}

const RUST: Template = Template {
    name: "Rust",
    source: "src/lib.rs",
    needs: "a Rust compiler with the target wasm32-unknown-unknown (`rustup target add wasm32-unknown-unknown`; on Debian \
            `apt-get install rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-22` does as well) and make",
    files: &[
        ("Cargo.toml", include_str!("rust/Cargo.toml.in")),
        ("Makefile", include_str!("rust/Makefile")),
        ("src/lib.rs", example!("rust/src/lib.rs")),
    ],
};

const PYTHON: Template = Template {
    name: "Python",
    source: "policy.py",
    needs: "Python 3.10 or later with venv (on Debian `apt-get install python3-venv`) and make; make fetches \
            componentize-py into `.tools`",
    files: &[
        ("Makefile", example!("python/Makefile")),
        ("policy.py", example!("python/policy.py")),
        ("requirements.txt", example!("python/requirements.txt")),
    ],
};

const JAVASCRIPT: Template = Template {
    name: "JavaScript",
    source: "policy.js",
    needs: "Node.js with npm (on Debian `apt-get install npm`) and make; make fetches componentize-qjs into `node_modules`",
    files: &[
        ("Makefile", example!("javascript/Makefile")),
        ("policy.js", example!("javascript/policy.js")),
        ("package.json", example!("javascript/package.json")),
    ],
};

const C: Template = Template {
    name: "C",
    source: "policy.c",
    needs: "a clang with the target wasm32-wasi, its library and its linker (on Debian `apt-get install clang-19 lld-19 \
            wasi-libc libclang-rt-19-dev-wasm32`) and make",
    files: &[("Makefile", example!("c/Makefile")), ("policy.c", example!("c/policy.c"))],
};

impl Language {
    const fn template(self) -> &'static Template {
        match self {
            Self::Rust => &RUST,
            Self::Python => &PYTHON,
            Self::JavaScript => &JAVASCRIPT,
            Self::C => &C,
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        self.template().name
    }

    /// What a project needs on the machine.
    pub const fn needs(self) -> &'static str {
        self.template().needs
    }

    /// The file that the policy is written in.
    pub const fn source(self) -> &'static str {
        self.template().source
    }

    /// The files of a project, each with its path.
    pub fn files(self, name: &str) -> Vec<(&'static str, String)> {
        let Template { name: language, source, needs, files } = self.template();
        let readme = README.replace("LANGUAGE", language).replace("SOURCE", source).replace("NEEDS", needs);
        let own = files.iter().map(|(path, content)| (*path, named(path, content, name)));
        let common = [
            ("README.md", readme.replace("NAME", name)),
            (".gitignore", example!(".gitignore").to_owned()),
            ("cases.toml", example!("cases.toml").to_owned()),
            ("wit/policy.wit", CONTRACT.to_owned()),
        ];
        own.chain(common).collect()
    }
}

/// A file under the project's name. In the policy itself the example's word stays, since it tells of inventories.
fn named(path: &str, content: &str, name: &str) -> String {
    match path {
        "Makefile" | "Cargo.toml" => content.replace(EXAMPLE, name),
        _ => content.to_owned(),
    }
}
