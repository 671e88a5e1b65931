//! `policy new`.

mod template;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Serialize;

use self::template::Language;
use crate::cli::whole_file;
use crate::model::text::visible;

/// The longest name of a project.
const MAX_NAME: usize = 64;

/// Arguments of `policy new`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The folder is made with everything that `make test` in it needs.\n\n\
    Example: reprieve policy new refunds --lang python && make -C refunds test")]
pub struct NewArgs {
    /// The folder to make; its last part is the policy's name: letters of A to Z and a to z, digits, - and _
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// The language it is written in
    #[arg(long, value_name = "LANGUAGE")]
    lang: Language,
}

/// What was made.
#[derive(Debug, Serialize)]
pub struct Made {
    name: String,
    language: &'static str,
    folder: PathBuf,
    files: Vec<&'static str>,
    #[serde(skip)]
    in_language: Language,
}

/// Makes a project that builds and passes its tests as it is.
///
/// # Errors
///
/// The name is none for a policy, the folder is in use, or a file cannot be written.
pub fn make(args: &NewArgs) -> anyhow::Result<Made> {
    let name = name_of(&args.folder)?;
    free(&args.folder)?;
    let files = args.lang.files(&name);
    let was_there = args.folder.exists();
    if let Err(error) = write(&args.folder, &files) {
        if !was_there {
            // Half a project would be in the way of the next try; what failed before says more than this could.
            let _ = fs::remove_dir_all(&args.folder);
        }
        return Err(error);
    }
    Ok(Made {
        name,
        language: args.lang.name(),
        folder: args.folder.clone(),
        files: files.into_iter().map(|(path, _)| path).collect(),
        in_language: args.lang,
    })
}

fn write(folder: &Path, files: &[(&str, String)]) -> anyhow::Result<()> {
    for (path, content) in files {
        let file = folder.join(path);
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot make the folder {}", parent.display()))?;
        whole_file::write(&file, content.as_bytes())?;
    }
    Ok(())
}

/// The last part of the folder's path, when a file, a package and a make target can all be called so.
fn name_of(folder: &Path) -> anyhow::Result<String> {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let fits = name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_'));
    if !fits {
        bail!(
            "{:?} is no name for a policy: expected a letter of A to Z or a to z, then at most {} of these letters, \
             0 to 9, - and _",
            visible(&name).to_string(),
            MAX_NAME - 1
        );
    }
    Ok(name)
}

/// Nothing that is there is written over.
fn free(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => bail!("folder {shown} is not empty: choose another name, or remove it"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot use {shown} as the project's folder")),
    }
}

/// For people.
pub fn text(made: &Made) -> String {
    let Made { name, language, folder, files, in_language } = made;
    let folder = folder.display();
    format!(
        "made the policy {name} in {language}: {} files in {folder}\n\
         needs    {}\n\
         build    make -C {folder} test    # builds {name}.wasm and tries it on cases.toml\n\
         change   {folder}/{}, {folder}/cases.toml",
        files.len(),
        in_language.needs(),
        in_language.source(),
    )
}
