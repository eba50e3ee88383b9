//! Recipes by their names, and how one is written out.

use std::io;
use std::path::{Path, PathBuf};

use fulgurite_types::nearest_name;

use crate::recipe_files::{RECIPES, Recipe};
use crate::standing_alone::{first_commands, first_sentence, standing_alone};

/// Error for a recipe that cannot be written out.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No recipe has the name.
    #[error("there is no recipe `{name}`{} There are {}", nearest(name), names().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// Something is there already.
    #[error("{} is {}: name another directory with --output", path.display(), if path.is_dir() { "not empty" } else { "a file" })]
    Occupied {
        /// Where the recipe would be.
        path: PathBuf,
    },
    /// A file or a directory cannot be made.
    #[error("cannot write {}", path.display())]
    CannotWrite {
        /// Where the recipe would be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn names() -> Vec<&'static str> {
    RECIPES.iter().map(|recipe| recipe.name).collect()
}

fn nearest(name: &str) -> String {
    nearest_name(name, &names()).map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"))
}

impl Recipe {
    /// All of them, by their names.
    pub fn all() -> &'static [Self] {
        RECIPES
    }

    /// The one with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<&'static Self, RecipeError> {
        let unknown = || RecipeError::Unknown { name: name.to_owned() };
        RECIPES.iter().find(|recipe| recipe.name == name).ok_or_else(unknown)
    }

    /// What it is, in a sentence.
    pub fn summary(&self) -> String {
        first_sentence(self.readme())
    }

    /// The commands to begin with, a line each.
    pub fn first_commands(&self) -> String {
        first_commands(&standing_alone(self.name, "README.md", self.readme()))
    }

    fn readme(&self) -> &'static str {
        self.files.iter().find(|(path, _)| *path == "README.md").map_or("", |(_, text)| text)
    }

    /// Writes every file. The directory appears whole or not at all: it is written next to its place, and moved there.
    ///
    /// # Errors
    /// If the directory is there and not empty, or a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), RecipeError> {
        let is_empty = || directory.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        if directory.exists() && !is_empty() {
            return Err(RecipeError::Occupied { path: directory.to_owned() });
        }
        self.write_files(directory).map_err(|source| RecipeError::CannotWrite { path: directory.to_owned(), source })
    }

    fn write_files(&self, directory: &Path) -> io::Result<()> {
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent)?;
        let made = tempfile::Builder::new().prefix(".fulgurite-init-").tempdir_in(parent)?;
        for (path, text) in self.files {
            let file = made.path().join(path);
            if let Some(parent) = file.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&file, standing_alone(self.name, path, text))?;
        }
        readable_by_all(made.path())?;
        // An empty directory gives way to it.
        std::fs::rename(made.path(), directory)?;
        // What was moved away is not there to be removed.
        let _moved = made.keep();
        Ok(())
    }
}

/// A temporary directory is its maker's alone; a project is as any other directory.
fn readable_by_all(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))
}
